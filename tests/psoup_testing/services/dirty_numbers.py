"""Files with numbers, dates and names of other systems, and the options that read them."""

from __future__ import annotations

import pyarrow as pa

from psoup_testing.services.dirty_file import Dirty, parquet_bytes, text_file


def other_forms() -> list[Dirty]:
    """List the files."""
    return [*_numbers(), *_refused_numbers(), *_renames(), *_rest()]


def _numbers() -> list[Dirty]:
    price, german = "it is not a valid DECIMAL(9,2)", {"decimal": ",", "thousands": "."}
    return [
        text_file(
            "thousand.csv",
            'id,price\n1,"1,000"\n',
            f"line 2, column 'price', '1,000': {price}; say --thousands , if it is 1000, or say --decimal , if it is"
            " 1.000",
        ),
        text_file(
            "thousands.csv",
            'id,price\n1,"12,500.00"\n',
            f"line 2, column 'price', '12,500.00': {price}; say --thousands ,",
        ),
        text_file("thousands_too.csv", 'id,price\n"1,001","12,500.00"\n', "", 1, thousands=","),
        text_file("german_numbers.csv", "id;price;unit price\n1.001;12.500,50;-1,5e3\n2;+1;0,5\n", "", 2, **german),
        text_file("points.csv", "id;price\n1.001;1,5\n", "", 1, thousands="."),
        text_file("spaces.csv", "id;price\n1\u00a0001;12\u202f500,50\n2;\n", "", 2, thousands=" ", decimal=","),
        text_file("swiss.csv", "id;price\n1;1’500.50\n", "", 1, thousands="'"),
    ]


def _refused_numbers() -> list[Dirty]:
    price, german = "it is not a valid DECIMAL(9,2)", {"decimal": ",", "thousands": "."}
    return [
        text_file(
            "half_groups.csv",
            "id;price\n1;1.00,5\n",
            f"line 2, column 'price', '1.00,5': {price}; its separators are not where a number has them; correct it",
            **german,
        ),
        text_file(
            "other_form.csv",
            "id;price\n1;12,500.00\n",
            f"line 2, column 'price', '12,500.00': {price}; write it as --decimal , --thousands . reads it",
            **german,
        ),
        text_file(
            "euros.csv",
            "id;price\n1;1.234,50 €\n",
            f"line 2, column 'price', '1.234,50 €': {price}; leave '€' out of the file and say --decimal ,"
            " --thousands .",
        ),
        text_file(
            "brackets.csv",
            "id,price\n1,(12.50)\n",
            f"line 2, column 'price', '(12.50)': {price}; write - instead of the brackets",
        ),
        text_file(
            "fraction.csv",
            "id\n1.5\n",
            "line 2, column 'id', '1.5': it is not a valid BIGINT; round it, or make the column DECIMAL",
        ),
        text_file(
            "large_german.csv",
            "id;price\n1;1,005\n",
            "line 2, column 'price', '1,005': it has more digits than DECIMAL(9,2) holds; round it",
            **german,
        ),
    ]


def _renames() -> list[Dirty]:
    return [
        text_file("renamed.csv", "Nr.;Amount (EUR)\n1;2.5\n", "", 1, rename=["Nr.=id", "amount (eur)=price"]),
        text_file("renamed.jsonl", '{"Nr.": 1}\n{"id": 2, "name": "x"}\n', "", 2, rename=["Nr.=id"]),
        Dirty(
            "renamed.parquet",
            parquet_bytes(key=pa.array([1]), id=pa.array(["x"])),
            "",
            1,
            {"rename": ["key=id", "id=name"]},
        ),
        text_file(
            "misspelt.csv",
            "Nr.;Amount\n1;2.5\n",
            "--rename: the file has no 'Ammount'; did you mean 'Amount'?",
            rename=["Nr.=id", "Ammount=price"],
        ),
        text_file(
            "no_column.csv",
            "Nr.;Amount\n1;2.5\n",
            "--rename: stream 's' has no column 'pice'; did you mean 'price'? its columns: id, name, price, unit price,"
            " day, at, ok",
            rename=["Nr.=id", "Amount=pice"],
        ),
        text_file(
            "unnamed_key.csv",
            "Nr.;name\n1;x\n",
            "line 1: column 'id' is missing, and stream 's' says NOT NULL; if 'Nr.' is it, say --rename Nr.=id",
            ignore_extra=True,
        ),
    ]


def _rest() -> list[Dirty]:
    return [
        text_file(
            "american.csv",
            "id,at\n1,07/04/2026 3:05 PM\n",
            "line 2: '07/04/2026 3:05 PM' in column 'at' is not a valid TIMESTAMP; say psoup push --date-format"
            " '%d/%m/%Y %I:%M %p' or --date-format '%m/%d/%Y %I:%M %p', or write it as 2013-07-04T12:00:00Z",
        ),
        text_file(
            "missing.csv",
            "name\nx\n",
            "line 1: column 'id' is missing, and stream 's' says NOT NULL; add it to the file",
        ),
    ]
