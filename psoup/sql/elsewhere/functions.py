"""Functions of other systems by their names in lower case, each with the advice for PSoup.

    TO_CHAR(at, 'YYYY')   ->   there is no function 'to_char'
                               hint: write strftime(t, '%Y-%m-%d') of a time, CAST(x AS TEXT) of a number

`FUNCTIONS` has names that PSoup lacks, whatever their arguments. `ARGUMENTS` has functions that PSoup has only with
another number of arguments.
"""

from __future__ import annotations

_BUCKET = "GROUP BY tumble(t, INTERVAL '1' HOUR) makes windows side by side, and tumble(t, …) is where each begins"
_HOP = "GROUP BY hop(t, INTERVAL '5' MINUTE, INTERVAL '1' HOUR) makes windows of an hour that begin every five minutes"
_SLIDING = f"{_HOP}, and hop(t, …) is where each begins; BEGIN (NOW - 1 HOUR) at the end is one that slides with NOW"
_NO_LIST = "a value is not a list: select the rows, in order, and put them together where they arrive"
_NOW = "now() in the SELECT list is the NOW; BEGIN (NOW - 1 HOUR) bounds the time"
_FORMAT = "write strftime(t, '%Y-%m-%d %H:%M:%S')"
_PARSE = "write strptime(x, '%Y-%m-%d'), and try_strptime to have NULL for what does not fit"
_SECONDS = "write epoch(t)"
_FROM_SECONDS = "write to_timestamp(n), of seconds since 1970"
_SHIFT = "write t + INTERVAL '1' DAY, or t - INTERVAL '1' HOUR"
_DIFFERENCE = "write date_diff('hour', a, b): the part of time in quotes, then from a to b"
_TRUNCATE = "write date_trunc('hour', t)"
_MATCH = "write x ~ 'pattern', or regexp_matches(x, 'pattern')"
_FIND = "write instr(x, 'part'): the text first"
_TEXT = "write CAST(x AS TEXT)"
_NUMBER = "write CAST(x AS BIGINT), or TRY_CAST to have NULL for what is not a number"
_RANDOM = "an answer must be the same whenever it is asked for: nothing here is random"
_IF_NULL = "write coalesce(x, 0)"
_IF = "write if(condition, a, b), or CASE WHEN condition THEN a ELSE b END"
_CASE = "write CASE WHEN x = 'a' THEN 1 ELSE 2 END"
_QUANTILE = "write approx_quantile(x, 0.5), or quantile_cont(x, 0.5)"
_TOP = "SELECT x … ORDER BY x DESC LIMIT 3 has the greatest values"
_FILTER = "write sum(x) FILTER (WHERE condition)"
_DISTINCT_VALUES = "count(DISTINCT x) counts them, and SELECT DISTINCT x has a row for each"
_AS_DATE = "write CAST(x AS DATE)"
_SESSION = "PSoup has no session windows; " + _BUCKET


def _all(names: str, advice: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), advice)


FUNCTIONS: dict[str, str] = {
    # Windows of streaming systems
    **_all("tumble_start tumble_rowtime tumblingwindow tumbling_window window time_slice", _BUCKET),
    **_all("tumble_end window_end windowend", "write tumble(t, INTERVAL '1' HOUR) + INTERVAL '1' HOUR"),
    **_all("window_start windowstart", "write tumble(t, INTERVAL '1' HOUR)"),
    **_all("hop_start hop_rowtime hoppingwindow hopping_window slidingwindow sliding_window hop_window", _SLIDING),
    "hop_end": f"{_HOP}; add the size to hop(t, …): it is where each begins",
    "cumulate": f"BEGIN (START) is a window that grows; {_BUCKET}",
    **_all("session session_start session_end session_window sessionwindow", _SESSION),
    "tostartofinterval": "write tumble(t, INTERVAL 15 MINUTE)",
    "time_bucket_gapfill": "write time_bucket(INTERVAL '15' MINUTE, t); a bucket without tuples has no row",
    "date_bin": "write time_bucket(INTERVAL '15' MINUTE, t)",
    **_all("locf interpolate", "a bucket without tuples has no row; fill gaps where the answer arrives"),
    **_all("proctime mz_now mz_logical_timestamp system_timestamp curdate utc_timestamp", _NOW),
    **_all("systimestamp sysdatetime sysutcdatetime getutcdate current_datetime utc_date", _NOW),
    "current_watermark": "the watermark of a stream is NOW in its answers: psoup stream show, describe(stream)",
    "rowtime": "_time is the time of a tuple",
    # Aggregates
    **_all("latest_by_offset latest last_by_offset anylast", "write last(x)"),
    **_all("earliest_by_offset earliest", "write first(x)"),
    **_all("collect_list grouparray json_agg jsonb_agg json_arrayagg array_concat_agg", _NO_LIST),
    **_all("collect_set groupuniqarray", _DISTINCT_VALUES),
    **_all("topk topkdistinct topn", _TOP),
    **_all("count_distinct countdistinct distinct_count uniqexact", "write count(DISTINCT x)"),
    **_all(
        "uniq uniqcombined uniqhll12 approx_distinct ndv approxcountdistinct",
        "write approx_count_distinct(x)",
    ),
    **_all("cnt count_big", "write count(*)"),
    **_all("average", "write avg(x)"),
    **_all("maximum", "write max(x)"),
    **_all("minimum", "write min(x)"),
    **_all("total", "write sum(x)"),
    **_all("sumif avgif minif maxif", _FILTER),
    **_all("logical_and", "write bool_and(x)"),
    **_all("logical_or", "write bool_or(x)"),
    **_all("percentile_approx approx_percentile quantiletdigest approx_quantiles tdigest_agg quantileexact", _QUANTILE),
    **_all("stdevp", "write stddev_pop(x)"),
    **_all("varp", "write var_pop(x)"),
    # Times
    **_all("to_char date_format timestamptostring format_timestamp format_datetime format_date", _FORMAT),
    **_all("formatdatetime datetostring time_format", _FORMAT),
    "to_date": f"write CAST(x AS DATE); of a text in another form {_PARSE.removeprefix('write ')}",
    **_all("str_to_date parse_timestamp parse_date parse_datetime parsedatetime stringtotimestamp", _PARSE),
    **_all("stringtodate to_timestamp_ntz to_timestamp_tz try_to_timestamp parsedatetimebesteffort", _PARSE),
    **_all("unix_timestamp unix_seconds tounixtimestamp to_unixtime", _SECONDS),
    **_all("unix_millis to_millis tounixtimestamp64milli", "write epoch_ms(t)"),
    **_all("unix_micros tounixtimestamp64micro", "write epoch_us(t)"),
    **_all("from_unixtime fromunixtimestamp timestamp_seconds", _FROM_SECONDS),
    **_all(
        "to_timestamp_ltz timestamp_millis timestamp_micros fromunixtimestamp64milli",
        "write epoch_ms(n) of milliseconds, make_timestamp(n) of microseconds, to_timestamp(n) of seconds",
    ),
    **_all("date_add dateadd timestampadd timestamp_add timestamp_sub datetime_add adddate subdate", _SHIFT),
    **_all("datetime_sub addtime subtime adddays addhours addminutes subtractdays", _SHIFT),
    **_all("add_months addmonths", "write t + INTERVAL '1' MONTH"),
    **_all("timestampdiff timestamp_diff datetime_diff datediff_big timediff", _DIFFERENCE),
    **_all("months_between", "write date_diff('month', a, b)"),
    **_all("timestamp_trunc datetime_trunc time_trunc", _TRUNCATE),
    "tostartofsecond": "write date_trunc('second', t)",
    "tostartofminute": "write date_trunc('minute', t)",
    "tostartofhour": "write date_trunc('hour', t)",
    "tostartofday": "write date_trunc('day', t)",
    "tostartofweek": "write date_trunc('week', t)",
    "tomonday": "write date_trunc('week', t)",
    "tostartofmonth": "write date_trunc('month', t)",
    "tostartofquarter": "write date_trunc('quarter', t)",
    "tostartofyear": "write date_trunc('year', t)",
    "tostartoffiveminutes": "write tumble(t, INTERVAL 5 MINUTE)",
    "tostartoffifteenminutes": "write tumble(t, INTERVAL 15 MINUTE)",
    **{f"to{part}": f"write {part}(t)" for part in ("year", "month", "hour", "minute", "second", "quarter")},
    **_all("datename", "write dayname(t), or monthname(t)"),
    **_all("julianday", "write julian(t)"),
    **_all("eomonth", "write last_day(t)"),
    **_all("datetime timestamp todatetime todatetime64", "write CAST(x AS TIMESTAMP)"),
    **_all("todate", _AS_DATE),
    **_all("from_utc_timestamp to_utc_timestamp convert_tz convert_timezone", "write t AT TIME ZONE '+02:00'"),
    # Types
    **_all("to_varchar tostring to_string str to_text", _TEXT),
    **_all("toint32 toint64 to_bigint touint64 to_int", _NUMBER),
    **_all("to_number tofloat64 todecimal64 to_double", "write CAST(x AS DOUBLE), or TRY_CAST; DECIMAL(p, s) is exact"),
    **_all("safe_cast try_convert", "write TRY_CAST(x AS BIGINT)"),
    "convert": "write CAST(x AS TEXT); strftime(t, '%Y-%m-%d') writes times",
    # NULL and conditions
    **_all("nvl isnull zeroifnull", _IF_NULL),
    "nvl2": "write CASE WHEN x IS NOT NULL THEN a ELSE b END",
    **_all("iif iff", _IF),
    **_all("decode multiif", _CASE),
    "nullifzero": "write nullif(x, 0)",
    **_all("safe_divide div0 ieee_divide", "write a / nullif(b, 0)"),
    # Texts
    **_all("regexp_like regexp_contains regexp_match rlike regexp match", _MATCH),
    **_all("regexp_substr regexp_extract_all", "write regexp_extract(x, 'pattern')"),
    **_all("replaceall replaceregexpall", "write regexp_replace(x, 'pattern', 'with', 'g')"),
    **_all("locate charindex patindex positioncaseinsensitive find_in_set", _FIND),
    "mid": "write substr(x, 1, 2)",
    **_all("substringutf8", "write substr(x, 1, 2)"),
    "substring_index": "write split_part(x, ',', 1)",
    "stuff": "write substr(x, 1, 3) || 'new' || substr(x, 5)",
    **_all("replicate", "write repeat(x, 2)"),
    "space": "write repeat(' ', 2)",
    "btrim": "write trim(x)",
    "initcap": "write upper(substr(x, 1, 1)) || lower(substr(x, 2))",
    "strcmp": "compare with =, < and >",
    "datalength": "write strlen(x)",
    "lengthutf8": "write length(x)",
    "startswith": "write starts_with(x, 'a')",
    "endswith": "write ends_with(x, 'a')",
    # Numbers
    "truncate": "write trunc(x); trunc(x * 100) / 100 keeps two digits",
    "width_bucket": "write floor(x / 10): the number of a bucket of 10",
    **_all("random_uuid newid uuid_string generateuuidv4 rands", _RANDOM),
    **_all("square", "write x * x"),
    # Lists and tables
    **_all("explode unnest flatten arrayjoin posexplode generate_series", _NO_LIST),
    **_all(
        "json_extract json_value get_json_object jsonextractstring json_query",
        "a column of its own for each field is faster; regexp_extract(x, 'pattern') takes a part of a text",
    ),
    "top": "write LIMIT 5 at the end of the statement, or TOP 5 without parentheses",
    "farm_fingerprint": "write md5(x)",
}
"""The advice for each function that PSoup lacks, by its name."""

ARGUMENTS: dict[tuple[str, int], str] = {
    ("count", 2): "put them together: count(DISTINCT a || ',' || b); or SELECT DISTINCT a, b, or GROUP BY a, b",
    ("count", 3): "put them together: count(DISTINCT a || ',' || b || ',' || c); or GROUP BY a, b, c",
    ("first", 2): "first(x) goes by arrival; the x of the least t is arg_min(x, t)",
    ("last", 2): "last(x) goes by arrival; the x of the greatest t is arg_max(x, t)",
    ("trunc", 2): "date_trunc('hour', t) truncates times; trunc(x * 100) / 100 keeps two digits",
    ("datediff", 2): "date_diff('day', a, b) counts days from a to b",
    ("date_diff", 2): "date_diff('day', a, b) counts days from a to b",
    ("median", 2): "quantile_cont(x, 0.5) takes a fraction",
    ("quantile", 1): "write quantile_cont(x, 0.5)",
}
"""The advice for a function with a number of arguments that PSoup refuses."""
