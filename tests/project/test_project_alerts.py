"""Alert rules and the dashboard: their files are current, they name metrics that exist, and each rule fires."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client
from psoup_service.monitoring.alerts import ALERTS, rules
from psoup_service.monitoring.dashboard import dashboard
from psoup_service.monitoring.families import families
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import serving

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SERIES = {series for family in families() for series in family.series}
NEED = "{} of Debian's package prometheus is not installed: apt-get install prometheus"


@pytest.mark.parametrize(("name", "made"), [("psoup-alerts.yml", rules()), ("psoup-dashboard.json", dashboard())])
def test_the_files_for_an_operator_are_current(name: str, made: str) -> None:
    if os.environ.get("PSOUP_TEST_WRITE"):
        (DEPLOY / name).write_text(made)
    assert (DEPLOY / name).read_text() == made, "if the change is meant: make golden"
    command = name.removeprefix("psoup-").partition(".")[0]
    assert CliRunner().invoke(app, ["config", command]).stdout == made


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(dashboard())["panels"] if panel["type"] != "row"]


def _queries() -> list[str]:
    return [target["expr"] for panel in _panels() for target in panel["targets"]]


def test_every_expression_names_metrics_that_exist() -> None:
    for expression in (*(alert.holds for alert in ALERTS), *_queries()):
        named = set(re.findall(r"psoup_\w+", expression))
        assert named and named <= SERIES, expression


def test_every_metric_has_one_panel_with_its_meaning() -> None:
    described = Counter(panel["description"] for panel in _panels() if panel["type"] == "timeseries")
    assert described == Counter(family.meaning for family in families())
    taken = Counter(
        (place["x"] + x, place["y"] + y)
        for panel in json.loads(dashboard())["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["w"])
        for y in range(place["h"])
    )
    assert max(taken.values()) == 1 and max(x for x, _ in taken) == 23, "panels overlap, or are beyond the edge"


def test_every_alert_says_what_to_do() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names) == len(EXAMPLES) and set(EXAMPLES) == set(names)
    severities = [alert.severity for alert in ALERTS]
    assert severities == sorted(severities), "the gravest come first"
    for alert in ALERTS:
        for document in re.findall(r"docs/\w+\.md", alert.advice):
            assert (DEPLOY.parent / document).exists(), alert.name


# Long: with Prometheus itself -------------------------------------------------------------------------------------

EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "PSoupAbsent": [("up", "0x90")],
    "PSoupDiskFull": [("psoup_short_of_disk", "1x90")],
    "PSoupNotApplying": [("psoup_queued_events", "3x90"), ("psoup_applied", "7x90")],
    "PSoupInternalErrors": [('psoup_calls_total{code="INTERNAL",method="QueryService/Invoke"}', "0+6x90")],
    "PSoupBackgroundErrors": [("psoup_background_errors", "0x60 1x30")],
    "PSoupStale": [('psoup_freshness_seconds{tenant="t",stream="s"}', "0+60x90")],
    "PSoupDerivedStopped": [('psoup_derived_stream_stopped{tenant="t",stream="s"}', "1x90")],
    "PSoupDerivedLate": [('psoup_derived_stream_late{tenant="t",stream="s"}', "1x90")],
    "PSoupSlowDisk": [('psoup_log_sync_seconds_bucket{le="%s"}', "0x90 0+60x90 0+60x90")],
    "PSoupCommandsWait": [('psoup_command_wait_seconds_bucket{le="%s"}', "0x90 0+60x90 0+60x90")],
    "PSoupSlowApply": [('psoup_apply_seconds_bucket{le="%s"}', "0x90 0+60x90 0+60x90")],
    "PSoupSlowCalls": [('psoup_call_seconds_bucket{le="%s",method="QueryService/Invoke"}', "0x90 0+60x90 0+60x90")],
    "PSoupLogGrows": [("psoup_wal_bytes", "300000000x90")],
    "PSoupRefusals": [('psoup_refused_by_budget_total{budget="memory_bytes"}', "0+60x90")],
    "PSoupTenantNearQuota": [
        ('psoup_tenant_used{tenant="t",quota="streams"}', "95x90"),
        ('psoup_tenant_limit{tenant="t",quota="streams"}', "100x90"),
    ],
    "PSoupLoopStalls": [("psoup_loop_stalls_total", "0+60x90")],
    "PSoupDearQueries": [("psoup_dear_queries", "1x90")],
    "PSoupClockStepped": [("psoup_clock_behind_seconds", "90x90")],
    "PSoupCertificateEnds": [("psoup_tls_not_after_seconds", "86400x90")],
    "PSoupWebhooksLate": [("psoup_webhook_age_seconds", "0+60x90")],
    "PSoupWebhooksPaused": [("psoup_webhooks_failed", "1x90")],
    "PSoupSpansDropped": [("psoup_spans_dropped", "0+60x90")],
}
"""Series, sampled each minute, at which a rule fires after 90 minutes. `%s` stands for 0.1, 10 and +Inf."""

HEALTHY = [
    ("psoup_sequence", "0+60x90"),
    ("psoup_applied", "0+60x90"),
    ("psoup_queued_events", "3x90"),
    ("psoup_short_of_disk", "0x90"),
    ("psoup_background_errors", "2x90"),
    ('psoup_calls_total{code="OK",method="QueryService/Invoke"}', "0+600x90"),
    ('psoup_freshness_seconds{tenant="t",stream="s"}', "12x90"),
    ('psoup_derived_stream_stopped{tenant="t",stream="s"}', "0x90"),
    ('psoup_derived_stream_late{tenant="t",stream="s"}', "0x90"),
    *(
        (f'psoup_{name}_bucket{{le="{le}",method="QueryService/Invoke"}}', "0+60x90")
        for name in ("log_sync_seconds", "command_wait_seconds", "apply_seconds", "call_seconds")
        for le in ("0.1", "10", "+Inf")
    ),
    ('psoup_call_seconds_bucket{le="0.1",method="QueryService/WaitForSequence"}', "0x90"),
    ('psoup_call_seconds_bucket{le="+Inf",method="QueryService/WaitForSequence"}', "0+60x90"),
    ("psoup_wal_bytes", "60000000x90"),
    ("psoup_webhook_age_seconds", "4x90"),
    ("psoup_webhooks_failed", "0x90"),
    ("psoup_tls_not_after_seconds", "0x90"),
    ('psoup_tenant_used{tenant="t",quota="streams"}', "5x90"),
    ('psoup_tenant_limit{tenant="t",quota="streams"}', "100x90"),
]


def _promtool(*arguments: str) -> str:
    if shutil.which("promtool") is None:
        pytest.skip(NEED.format("promtool"))
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _each_bucket(series: str, values: str) -> Iterator[dict[str, str]]:
    if "%s" not in series:
        yield {"series": series, "values": values}
        return
    first, second, last = values.split(" ")
    for bound, value in (("0.1", first), ("10", second), ("+Inf", last)):
        yield {"series": series.replace("%s", bound), "values": value}


def _case(series: list[tuple[str, str]], query: str, samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [each for pair in series for each in _each_bucket(*pair)],
        "promql_expr_test": [{"expr": query, "eval_time": "90m", "exp_samples": samples}],
    }


@pytest.mark.long
def test_each_rule_fires_at_its_example_and_none_on_a_healthy_service(tmp_path: Path) -> None:
    assert f"{len(ALERTS)} rules found" in _promtool("check", "rules", str(DEPLOY / "psoup-alerts.yml"))
    firing = 'count(ALERTS{alertname=~"%s",alertstate="firing"})'
    cases = [_case(series, firing % name, [{"labels": "{}", "value": 1}]) for name, series in EXAMPLES.items()]
    cases.append(_case(HEALTHY, firing % ".*", []))
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(DEPLOY / "psoup-alerts.yml")], "tests": cases}))  # JSON is YAML
    _promtool("test", "rules", str(file))


@contextmanager
def _prometheus(folder: Path, target: str) -> Iterator[str]:
    """Debian's Prometheus with the configuration of deploy/, which scrapes `target`. Yields its address."""
    if shutil.which("prometheus") is None:
        pytest.skip(NEED.format("prometheus"))
    text = (DEPLOY / "prometheus.yml").read_text()
    text = text.replace("127.0.0.1:9100", target).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "psoup-alerts.yml", folder)
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command += ["--web.listen-address=127.0.0.1:0", "--log.format=json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
            address = ""
            for line in lines:
                address = line.get("address", address)
                if line.get("msg", "").startswith("Server is ready"):
                    break
            yield f"http://{address}"
        finally:
            process.terminate()
            process.communicate()


def _asked(address: str, query: str) -> list[dict[str, Any]]:
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=60) as reply:
        result: list[dict[str, Any]] = json.load(reply)["data"]["result"]
    return result


@pytest.mark.long
def test_prometheus_scrapes_the_service_and_takes_every_expression(tmp_path: Path) -> None:
    _promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml"))
    with serving(Settings(port=0, metrics_port=0)) as served, Client(served.address) as client:
        client.execute("CREATE STREAM s (x BIGINT)")
        client.push("s", {"x": [1, 2, 3]})
        with _prometheus(tmp_path, served.service.metrics_address) as address:
            taken: list[dict[str, Any]] = []
            for _ in range(600):
                taken = _asked(address, "psoup_pushed_tuples_total")
                if taken or threading.Event().wait(0.1):
                    break
            assert taken and taken[0]["value"][1] == "3"
            for query in [*(alert.holds for alert in ALERTS), *_queries()]:
                _asked(address, query.replace("$__rate_interval", "5m").replace("$instance", ".*"))
            with urllib.request.urlopen(f"{address}/api/v1/rules", timeout=60) as reply:
                (group,) = json.load(reply)["data"]["groups"]
            assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
