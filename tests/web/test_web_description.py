"""The description of the calls: it is valid OpenAPI, has every call, and the comments of the .proto files."""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from psoup_service.web.description.comments import comments
from psoup_service.web.methods import ALLOWED
from psoup_testing.browser.page_requests import Page


@pytest.fixture(scope="module")
def document(page: Page) -> Any:
    response = page.send("GET", "/api/openapi.json")
    assert response.status == 200 and response.headers["content-type"] == "application/json"
    return response.json


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for inner in value for name in references(inner)]
    if not isinstance(value, dict):
        return []
    target_names = [value["$ref"]] if "$ref" in value else []
    return target_names + [name for inner in value.values() for name in references(inner)]


def test_every_call_is_described(document: Any) -> None:
    calls = {f"/api/{service}/{name}" for service, names in ALLOWED.items() for name in names}
    rows = {"/api/ask", "/api/streams/{stream}/rows", "/api/queries/{key}/rows"}
    assert set(document["paths"]) == calls | rows
    for path in document["paths"].values():
        assert path["post"]["summary"].endswith(".") and "default" in path["post"]["responses"]


def test_the_schemas_are_those_of_the_messages(document: Any) -> None:
    schemas = document["components"]["schemas"]
    assert {name.removeprefix("#/components/schemas/") for name in references(document)} <= set(schemas)
    push = schemas["PushRowsRequest"]["properties"]
    assert push["rows"]["type"] == "array" and "an array of objects" in push["rows"]["description"]
    assert push["refused"]["$ref"] == "#/components/schemas/Refused"
    assert schemas["Refused"]["enum"] == ["REFUSED_UNSPECIFIED", "REFUSED_COUNT", "REFUSED_RAISE"]
    assert schemas["AskRequest"]["properties"]["asOf"]["format"] == "date-time"
    assert schemas["AskRequest"]["properties"]["windows"]["additionalProperties"] == {"type": "string"}
    assert schemas["Completeness"]["properties"]["sequence"]["description"].startswith("The last event")


@pytest.mark.long
def test_the_document_is_valid(document: Any) -> None:
    openapi = pytest.importorskip("openapi_spec_validator")
    openapi.validate(document)


def test_the_description_is_read_only(page: Page) -> None:
    refused = page.send("POST", "/api/openapi.json", b"{}", {"x-psoup": "1"})
    assert refused.status == 405 and refused.headers["allow"] == "GET"


@pytest.mark.seeded("a comment of a .proto file is missing, or belongs to another declaration")
def test_the_comments_are_those_that_protoc_reads(tmp_path: Path) -> None:
    with as_file(files("psoup_proto")) as folder:
        sources = sorted(str(path) for path in folder.joinpath("v1").glob("*.proto"))
        target = tmp_path / "set"
        arguments = ["protoc", f"-I{folder.parent}", "--include_source_info", f"--descriptor_set_out={target}"]
        assert protoc.main([*arguments, *sources, f"-I{files('grpc_tools')}/_proto"]) == 0
    documented = dict[str, str]()
    for file in descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file:
        for place in file.source_code_info.location:
            name = name_of(file, list(place.path)) if place.leading_comments else ""
            if name:
                lines = place.leading_comments.rstrip("\n").split("\n")
                documented[name] = "\n".join(line.removeprefix(" ") for line in lines)
    assert len(documented) > 500
    assert json.dumps(dict(comments()), sort_keys=True, indent=1) == json.dumps(documented, sort_keys=True, indent=1)


def name_of(file: Any, path: list[int]) -> str:
    """The full name of a declaration; "" for another place, such as `syntax`."""
    names, node = [file.package], file
    while path:
        field, *path = path
        part = node.DESCRIPTOR.fields_by_number[field]
        if not part.is_repeated or not path:
            return ""
        index, *path = path
        node = getattr(node, part.name)[index]
        if not hasattr(node, "name"):
            return ""
        names.append(node.name)
    return ".".join(names)
