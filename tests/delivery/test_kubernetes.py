"""The manifests, without a cluster: each runs a command of ours as nobody special, and every name that it uses is there."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings, load_settings
from tests.delivery.commands import parse
from tests.delivery.dockerfile import stages

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
FILES = {path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted(FOLDER.glob("*.yaml"))}
REPLICAS = {
    "embedded.yaml": {"StatefulSet/drainboard": 1},
    "scaled.yaml": {"Deployment/drainboard-web": 2, "Deployment/drainboard-worker": 3},
}
each_file = pytest.mark.parametrize("name", REPLICAS)


def of_kind(name: str, *kinds: str) -> list[dict[str, Any]]:
    return [found for found in FILES[name] if found["kind"] in kinds]


def workloads(name: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each workload's name, its pod and the one container."""
    for found in of_kind(name, "Deployment", "StatefulSet"):
        pod = found["spec"]["template"]["spec"]
        [container] = pod["containers"]
        yield f"{found['kind']}/{found['metadata']['name']}", pod, container


def labels(found: dict[str, Any]) -> dict[str, str]:
    return dict(found["spec"]["template"]["metadata"]["labels"])


@each_file
def test_a_workload_runs_a_command_of_ours_so_many_times(name: str) -> None:
    counts = {
        f"{w['kind']}/{w['metadata']['name']}": w["spec"]["replicas"]
        for w in of_kind(name, "Deployment", "StatefulSet")
    }
    assert counts == REPLICAS[name]
    for _, _, container in workloads(name):
        parse(container["args"])


@each_file
def test_a_pod_is_not_root_writes_to_volumes_alone_and_is_bounded(name: str) -> None:
    for _, pod, container in workloads(name):
        user = pod["securityContext"]
        assert user["runAsNonRoot"] is True
        assert f"{user['runAsUser']}:{user['runAsGroup']}" == stages()[-1].all("USER")[-1]
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]) == {"requests", "limits"}
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable == {"/data", "/tmp"}


@each_file
def test_what_serves_is_probed_where_it_listens_and_reached_by_its_service(name: str) -> None:
    [service] = of_kind(name, "Service")
    served = [
        w
        for w in of_kind(name, "Deployment", "StatefulSet")
        if service["spec"]["selector"].items() <= labels(w).items()
    ]
    assert len(served) == 1
    [container] = served[0]["spec"]["template"]["spec"]["containers"]
    [port] = container["ports"]
    assert container["args"][container["args"].index("--port") + 1] == str(port["containerPort"])
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {port["name"]}


@each_file
def test_every_volume_and_selector_names_what_is_there(name: str) -> None:
    maps = {found["metadata"]["name"] for found in of_kind(name, "ConfigMap")}
    for found in of_kind(name, "Deployment", "StatefulSet"):
        assert found["spec"]["selector"]["matchLabels"] == labels(found)
        pod = found["spec"]["template"]["spec"]
        claims = {claim["metadata"]["name"] for claim in found["spec"].get("volumeClaimTemplates", ())}
        volumes = {volume["name"] for volume in pod["volumes"]} | claims
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == volumes
        assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} <= maps
    pods = [labels(found) for found in of_kind(name, "Deployment", "StatefulSet")]
    policies = of_kind(name, "NetworkPolicy")
    for policy in policies:
        wanted = policy["spec"]["podSelector"]["matchLabels"]
        assert [pod for pod in pods if wanted.items() <= pod.items()]
    for pod in pods:  # nothing is reached, or reaches out, without a policy
        theirs = [one["spec"] for one in policies if one["spec"]["podSelector"]["matchLabels"].items() <= pod.items()]
        assert {kind for spec in theirs for kind in spec["policyTypes"]} == {"Ingress", "Egress"}


@each_file
def test_its_settings_are_settings_and_say_who_may_look(name: str, tmp_path: Path) -> None:
    [found] = of_kind(name, "ConfigMap")
    file = tmp_path / "drainboard.toml"
    file.write_text(found["data"]["drainboard.toml"])
    settings = load_settings(file)
    assert settings.sign_in.mode == "token"
    assert tomllib.loads(file.read_text())["deployments"][0]["api_key_env"]
    for _, _, container in workloads(name):
        given = {one["name"]: one["value"] for one in container["env"]}
        assert given.pop("DRAINBOARD_CONFIG") == "/etc/drainboard/drainboard.toml"
        assert {key.removeprefix("DRAINBOARD_").lower() for key in given} <= set(Settings.model_fields)
        places = [str(settings.key_file), settings.database_url.partition("///")[2]]
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        for place in (place for place in places if place.startswith("/")):
            assert any(place.startswith(f"{mount}/") for mount in mounts), place
