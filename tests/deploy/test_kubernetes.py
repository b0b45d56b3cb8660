"""Every manifest is valid by Kubernetes' own schemas, with nothing they do not know; what overlays render to, too."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("single-node", "redis-cluster")
PODS = ("Deployment", "StatefulSet")


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


def named(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name)


def test_every_file_is_listed_and_every_whole_manifest_is_valid():
    kustomizations = list(KUBERNETES.rglob("kustomization.yaml"))
    assert len(kustomizations) == 5
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
    assert any(one["kind"] == "StatefulSet" for one in documents) == (overlay == "single-node")
    to_redis = named(documents, "NetworkPolicy", "optimist-to-redis")["spec"]["egress"]
    assert len(to_redis) == 1
    assert ("ipBlock" in to_redis[0]["to"][0]) == (overlay == "redis-cluster")


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
    overlay.write_text(overlay.read_text() + "components: [../../components/gpu]\n")
    documents = rendered(overlay.parent)
    scorer = named(documents, "Deployment", "optimist-scorer")
    validate(scorer)
    container = scorer["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "optimist:cuda"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert {"name": "OPTIMIST_DEVICE", "value": "cuda"} in container["env"]
    assert any(variable["name"] == "OPTIMIST_REDIS_URL" for variable in container["env"])


def test_no_container_has_a_password_in_its_arguments():
    for path in KUBERNETES.rglob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") in PODS and "template" in document["spec"]:
                for container in document["spec"]["template"]["spec"]["containers"]:
                    words = [*container.get("command", []), *container.get("args", [])]
                    assert not any("--requirepass" in word or "REDIS_URL" in word for word in words), path
