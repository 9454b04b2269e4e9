"""deploy/container and deploy/kubernetes: valid, in step with the daemon and with each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib import resources
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

PROJECT = Path(__file__).parents[3]
DEPLOY = PROJECT / "deploy"
BIN = Path(os.environ.get("MEMLEASE_BUILD_DIR", PROJECT / "build/release")).absolute() / "bin"
USER = 10001


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


SIDECAR = documents("sidecar.yaml")[0]["spec"]
NAMESPACE, NODE_DAEMON, NODE_CLIENT = documents("node-daemon.yaml")
COMPOSE = yaml.safe_load((DEPLOY / "container/compose.yaml").read_text())
DAEMON_POD = NODE_DAEMON["spec"]["template"]["spec"]
# Where a daemon runs, and who uses it.
DAEMONS = {
    "sidecar": SIDECAR["initContainers"][0],
    "node": DAEMON_POD["containers"][0],
}
CLIENTS = [*SIDECAR["containers"], *NODE_CLIENT["spec"]["containers"]]


def variables(container):
    return {entry["name"]: entry["value"] for entry in container["env"]}


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
@pytest.mark.parametrize("name", ["sidecar.yaml", "node-daemon.yaml"])
def test_kubernetes_takes_the_manifests(name, version):
    for document in documents(name):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_check_of_manifests_finds_a_wrong_field():
    """A control."""
    wrong = documents("sidecar.yaml")[0]
    wrong["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_the_nodes_pods_are_in_a_namespace_that_lets_them_see_the_host():
    assert NAMESPACE["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    for document in (NODE_DAEMON, NODE_CLIENT):
        assert document["metadata"]["namespace"] == NAMESPACE["metadata"]["name"]


def test_compose_takes_its_file():
    schema = resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    validator = jsonschema.Draft7Validator(json.loads(schema.read_text()))
    assert not list(validator.iter_errors(COMPOSE))
    assert list(validator.iter_errors(COMPOSE | {"service": {}})), "a control"


def test_the_sidecar_meets_the_restricted_standard():
    """Whatever of a pod the Pod Security Standard "restricted" looks at."""
    assert not {"hostPID", "hostIPC", "hostNetwork", "hostUsers"} & set(SIDECAR)
    assert all(set(volume) == {"name", "emptyDir"} for volume in SIDECAR["volumes"])
    assert SIDECAR["securityContext"]["runAsNonRoot"] is True
    assert SIDECAR["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*SIDECAR["initContainers"], *SIDECAR["containers"]]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_clients_look_where_their_daemon_is_and_cannot_write_there():
    for client in CLIENTS:
        (mount,) = client["volumeMounts"]
        assert mount["readOnly"] is True
        assert Path(variables(client)["MEMLEASE_DIR"]).is_relative_to(mount["mountPath"])
    assert {variables(c)["MEMLEASE_DIR"] for c in SIDECAR["containers"]} == {
        variables(DAEMONS["sidecar"])["MEMLEASE_DIR"]
    }
    assert variables(CLIENTS[-1])["MEMLEASE_DIR"] == variables(DAEMONS["node"])["MEMLEASE_DIR"]


def settings_of_compose():
    return COMPOSE["services"]["memleased"]["environment"] | COMPOSE["x-client"]["environment"]


@pytest.mark.parametrize(
    "settings",
    [settings_of_compose(), *(variables(daemon) for daemon in DAEMONS.values())],
    ids=["compose", *DAEMONS],
)
def test_the_daemon_takes_the_settings(settings):
    shown = subprocess.run(
        [BIN / "memleased", "--print-config"],
        env={"PATH": os.environ["PATH"], **settings}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in settings:
        assert re.search(rf"{name}\b", shown), f"{name} counts for nothing in:\n{shown}"


def test_there_is_time_for_leases_to_be_given_back():
    shown = subprocess.run(
        [BIN / "memleased", "--print-config"], capture_output=True, text=True, check=True
    ).stdout
    drain_s = int(re.search(r"drain_timeout_s\s*=\s*(\d+)", shown)[1])
    grace = [SIDECAR["terminationGracePeriodSeconds"], DAEMON_POD["terminationGracePeriodSeconds"]]
    grace += [int(COMPOSE["services"]["memleased"]["stop_grace_period"].removesuffix("s"))]
    assert min(grace) > drain_s


def test_a_probe_that_waits_for_the_daemon_has_longer_than_it():
    for daemon in DAEMONS.values():
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = daemon.get(name, {})
            command = probe.get("exec", {}).get("command", [])
            if "--timeout" in command:
                assert int(command[command.index("--timeout") + 1]) < probe["timeoutSeconds"]


def test_everybody_means_the_same_user():
    image = (DEPLOY / "container/Containerfile").read_text()
    assert f"USER {USER}:{USER}\n" in image
    assert f"uid={USER}\n" in (DEPLOY / "container/make_root.sh").read_text()
    assert f"chown {USER}:{USER} " in DAEMON_POD["initContainers"][0]["command"][-1]
    contexts = [SIDECAR["securityContext"], DAEMONS["node"]["securityContext"]]
    assert {(c["runAsUser"], c["runAsGroup"]) for c in contexts} == {(USER, USER)}


def images():
    pods = [SIDECAR, DAEMON_POD, NODE_CLIENT["spec"]]
    containers = [c for pod in pods for c in [*pod.get("initContainers", []), *pod["containers"]]]
    return {container["image"] for container in containers}


def test_images_are_of_this_release_or_of_one_that_is_named():
    """With `latest`, or no tag, nodes would run what is newest when a pod starts there."""
    users = {"simulation", "worker"}  # whoever takes the manifest has images of their own
    tagged = dict(image.rsplit(":", 1) for image in images() - users)
    version = (PROJECT / "VERSION").read_text().strip()
    assert tagged == {
        "registry.example.com/memleased": version,
        "docker.io/library/busybox": "1.36.1",
    }
    page = (PROJECT / "docs/containers.md").read_text()
    assert f"docker push registry.example.com/memleased:{version}\n" in page


def test_the_image_is_built_by_what_is_there():
    image = (DEPLOY / "container/Containerfile").read_text()
    scripts = re.findall(r"deploy/\S+\.(?:sh|py)", image)
    assert len(scripts) == 2
    assert all((PROJECT / script).exists() for script in scripts)


def test_the_image_is_built_with_packages_that_dev_knows():
    image = (DEPLOY / "container/Containerfile").read_text().replace("\\\n", " ")
    packages = re.search(r"--no-install-recommends (.*)\n", image)[1].split()
    listed = re.search(r"build_packages=\(\n(.*?)\)", (PROJECT / "dev").read_text(), re.DOTALL)[1]
    assert set(packages) - set(listed.split()) == {"python3", "ca-certificates"}
