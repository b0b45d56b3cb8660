"""Every manifest is valid by Kubernetes' own schemas, with nothing they do not know; what overlays render to, too."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.commands import invoked
from tests.support.places import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("single-node", "redis-cluster", "two-cells")
PODS = ("Deployment", "StatefulSet")
pytestmark = pytest.mark.long


def rendered(directory: Path) -> list[dict[str, Any]]:
    """What would be applied. Skips where there is neither kustomize nor kubectl."""
    if program := shutil.which("kustomize"):
        command = [program, "build", str(directory)]
    elif program := shutil.which("kubectl"):
        command = [program, "kustomize", str(directory)]
    else:
        pytest.skip("needs kustomize or kubectl on PATH")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def validate(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, "1.37", strict=True)


def named(documents: list[dict[str, Any]], kind: str, name: str) -> list[dict[str, Any]]:
    """The objects of this kind and name, of every namespace."""
    return [one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name]


def test_every_file_is_listed_and_every_whole_manifest_is_valid():
    kustomizations = list(KUBERNETES.rglob("kustomization.yaml"))
    assert len(kustomizations) == 12
    for path in kustomizations:
        kustomization = yaml.safe_load(path.read_text())
        resources = [name for name in kustomization.get("resources", []) if name.endswith(".yaml")]
        patches = [patch["path"] for patch in kustomization.get("patches", []) if "path" in patch]
        assert {*resources, *patches, "kustomization.yaml"} == {file.name for file in path.parent.glob("*.yaml")}
        for name in resources:
            for document in yaml.safe_load_all((path.parent / name).read_text()):
                validate(document)


def test_a_field_that_kubernetes_does_not_know_would_be_noticed():
    document = next(iter(yaml.safe_load_all((KUBERNETES / "base" / "namespace.yaml").read_text())))
    with pytest.raises(kubernetes_validate.ValidationError):
        validate({**document, "specs": {}})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_renders_to_valid_manifests(overlay: str):
    documents = rendered(KUBERNETES / "overlays" / overlay)
    for document in documents:
        validate(document)
    cells = 2 if overlay == "two-cells" else 1
    assert len(named(documents, "StatefulSet", "redis")) == (0 if overlay == "redis-cluster" else cells)
    policies = named(documents, "NetworkPolicy", "optimist-to-redis")
    assert len(policies) == cells
    for policy in policies:
        (to_redis,) = policy["spec"]["egress"]
        assert ("ipBlock" in to_redis["to"][0]) == (overlay == "redis-cluster")


def test_two_cells_share_nothing_and_the_front_may_reach_both():
    documents = rendered(KUBERNETES / "overlays" / "two-cells")
    where = [
        (one["metadata"]["namespace"], one["kind"], one["metadata"]["name"])
        for one in documents
        if one["kind"] != "Namespace"
    ]
    a, b = ({(kind, name) for place, kind, name in where if place == f"optimist-{cell}"} for cell in "ab")
    assert a == b
    assert {("StatefulSet", "redis"), ("Deployment", "optimist-api"), ("Deployment", "optimist-scorer")} <= a
    assert {place for place, _, _ in where} == {"optimist-a", "optimist-b", "optimist-front"}
    assert all(one["spec"]["maxReplicas"] == 4 for one in named(documents, "HorizontalPodAutoscaler", "optimist-api"))
    (space,) = named(documents, "Namespace", "optimist-front")
    admitted = named(documents, "NetworkPolicy", "optimist-api")[0]["spec"]["ingress"][0]["from"]
    assert any(
        one["namespaceSelector"]["matchLabels"].items() <= space["metadata"]["labels"].items() for one in admitted
    )
    (policy,) = named(documents, "NetworkPolicy", "front")
    reached = policy["spec"]["egress"][1]["to"][0]["namespaceSelector"]["matchExpressions"][0]["values"]
    (config,) = [one["data"]["nginx.conf"] for one in documents if "nginx.conf" in one.get("data", {})]
    assert [f"server optimist.{place}.svc.cluster.local:80" in config for place in reached] == [True, True]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_are_restricted_and_probed(overlay: str):
    documents = rendered(KUBERNETES / "overlays" / overlay)
    for pods in [document for document in documents if document["kind"] in PODS]:
        pod = pods["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        labels = pods["spec"]["template"]["metadata"]["labels"]
        assert pods["spec"]["selector"]["matchLabels"].items() <= labels.items()
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "livenessProbe" in container
            assert "memory" in container["resources"]["limits"]


def test_the_gpu_component_gives_each_scorer_one(tmp_path: Path):
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    overlay = tmp_path / "kubernetes" / "overlays" / "redis-cluster" / "kustomization.yaml"
    overlay.write_text(overlay.read_text().replace("components: [", "components: [../../components/gpu, "))
    documents = rendered(overlay.parent)
    (scorer,) = named(documents, "Deployment", "optimist-scorer")
    validate(scorer)
    container = scorer["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "optimist-cuda:dev"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert {"name": "OPTIMIST_DEVICE", "value": "cuda"} in container["env"]
    assert any(variable["name"] == "OPTIMIST_REDIS_URL" for variable in container["env"])


def test_a_release_pins_every_image_by_its_digest(tmp_path: Path):
    shutil.copytree(KUBERNETES.parents[1] / "deploy", tmp_path / "deploy")
    shutil.copytree(KUBERNETES.parents[1] / "docker", tmp_path / "docker")
    names = ["optimist-api", "optimist-cpu", "redis", "nginxinc/nginx-unprivileged", "prom/prometheus"]
    pins = [f"{name}=registry.example:5000/{name}@sha256:{number:064x}" for number, name in enumerate(names)]
    program = [sys.executable, str(tmp_path / "deploy" / "pin.py")]
    for wrong in (pins[0].replace("sha256", "sha1"), "valkey=valkey@sha256:" + "0" * 64):
        refused = subprocess.run([*program, *pins[1:], wrong], capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1
        assert wrong.partition("=")[0] in refused.stderr
    assert "@sha256" not in (tmp_path / "docker" / "compose.yaml").read_text()
    subprocess.run([*program, *pins], check=True, timeout=60)
    compose = yaml.safe_load((tmp_path / "docker" / "compose.yaml").read_text())
    images = {service["image"] for service in compose["services"].values()}
    assert images == {pin.partition("=")[2] for pin in pins}
    for overlay in OVERLAYS:
        documents = rendered(tmp_path / "deploy" / "kubernetes" / "overlays" / overlay)
        pods = [one["spec"]["template"]["spec"] for one in documents if one["kind"] in PODS]
        assert {container["image"] for pod in pods for container in pod["containers"]} <= images


def test_workers_that_are_preempted_come_again_and_are_no_failures():
    (job,) = yaml.safe_load_all((KUBERNETES / "workers" / "job.yaml").read_text())
    validate(job)
    spec = job["spec"]
    assert "completions" not in spec, "one worker that ends says that the experiment has"
    ignored = [rule for rule in spec["podFailurePolicy"]["rules"] if rule["action"] == "Ignore"]
    assert {"type": "DisruptionTarget", "status": "True"} in ignored[0]["onPodConditions"]
    # What `optimist worker` ends with at SIGTERM. SIGKILL may be for its memory, which would come again for ever.
    assert ignored[1]["onExitCodes"]["values"] == [128 + signal.SIGTERM]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    (container,) = spec["template"]["spec"]["containers"]
    assert container["name"] == ignored[1]["onExitCodes"]["containerName"]
    done = invoked(*container["args"][:-1], "--url=ftp://nowhere", code=1)
    assert "my_models" in done.output, "all its options are known"


def test_no_container_has_a_password_in_its_arguments():
    for path in KUBERNETES.rglob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") in PODS and "template" in document["spec"]:
                for container in document["spec"]["template"]["spec"]["containers"]:
                    words = [*container.get("command", []), *container.get("args", [])]
                    assert not any("--requirepass" in word or "REDIS_URL" in word for word in words), path


def test_backups_may_reach_redis_and_the_ingress_leads_to_the_api():
    def whole(path: str) -> list[dict[str, Any]]:
        return list(yaml.safe_load_all((KUBERNETES / path).read_text()))

    (job,) = named(whole("components/backup/backup.yaml"), "CronJob", "optimist-backup")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
    (out,) = named(whole("base/network.yaml"), "NetworkPolicy", "optimist-to-redis")
    (into,) = named(whole("components/redis/redis.yaml"), "NetworkPolicy", "optimist-redis")
    for selector in (out["spec"]["podSelector"], into["spec"]["ingress"][0]["from"][0]["podSelector"]):
        assert component in selector["matchExpressions"][0]["values"]
    (container,) = pod["spec"]["containers"]
    (service,) = named(whole("base/api.yaml"), "Service", "optimist")
    (api,) = named(whole("base/api.yaml"), "Deployment", "optimist-api")
    assert container["image"] == api["spec"]["template"]["spec"]["containers"][0]["image"]
    ports = {port["name"] for port in service["spec"]["ports"]}
    for ingress in whole("components/ingress/ingress.yaml"):
        (rule,) = ingress["spec"]["rules"]
        assert rule["host"] in ingress["spec"]["tls"][0]["hosts"]
        for path in rule["http"]["paths"]:
            backend = path["backend"]["service"]
            assert backend["name"] == "optimist"
            assert backend["port"]["name"] in ports
