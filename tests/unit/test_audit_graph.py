"""The link graph: who provides what, and by which way it is found."""

from pathlib import Path

import pytest
from audit_samples import elf, read, wheel

from gpuforge.audit import layout
from gpuforge.audit.link import graph as link

CUDA12 = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def edges(*paths: Path) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return (loader, needed) → (provider, who, route), without the system's libraries."""
    graph = link.build([read(path) for path in paths])
    return {
        (e.loader.name, e.needed): (
            e.provider.source,
            e.provider.object.file if e.provider.object else e.provider.package,
            str(e.route) if e.route else f"preload {e.preload.file}" if e.preload else "",
        )
        for e in graph.edges
        if e.provider.source != "system"
    }


def test_runpath_leads_from_the_objects_own_folder(tmp_path):
    files = {
        "demo/sub/ext.so": elf(needed=["libx-0a1b2c3d.so"], runpath="$ORIGIN/../../demo.libs"),
        "demo.libs/libx-0a1b2c3d.so": elf(soname="libx-0a1b2c3d.so"),
    }
    assert edges(wheel(tmp_path, files)) == {
        ("ext.so", "libx-0a1b2c3d.so"): (
            "wheel",
            "demo.libs/libx-0a1b2c3d.so",
            "RUNPATH $ORIGIN/../../demo.libs",
        )
    }


@pytest.mark.parametrize(("kind", "route"), [("rpath", "RPATH $ORIGIN/libs of ext.so"), ("runpath", "")])
def test_an_ancestors_rpath_helps_and_its_runpath_does_not(tmp_path, kind, route):
    files = {
        "demo/ext.so": elf(needed=["liba.so"], **{kind: "$ORIGIN/libs"}),
        "demo/libs/liba.so": elf(needed=["libb.so"], soname="liba.so"),
        "demo/libs/libb.so": elf(soname="libb.so"),
    }
    found = edges(wheel(tmp_path, files))
    assert found["liba.so", "libb.so"] == ("wheel", "demo/libs/libb.so", route)


def test_an_rpath_beside_a_runpath_counts_for_nothing(tmp_path):
    files = {
        "demo/ext.so": elf(needed=["liba.so"], rpath="$ORIGIN/libs", runpath="$ORIGIN/none"),
        "demo/libs/liba.so": elf(soname="liba.so"),
    }
    assert edges(wheel(tmp_path, files))["ext.so", "liba.so"] == ("wheel", "demo/libs/liba.so", "")


def test_what_is_loaded_already_is_not_looked_for(tmp_path):
    files = {
        "demo/ext.so": elf(needed=["libb.so", "liba.so"], runpath="$ORIGIN/libs"),
        "demo/libs/liba.so": elf(needed=["libb.so"], soname="liba.so"),
        "demo/libs/libb.so": elf(soname="libb.so"),
    }
    assert edges(wheel(tmp_path, files))["liba.so", "libb.so"][2] == "loaded before it by ext.so"


def test_pip_packages_are_found_declared_and_named(tmp_path):
    files = {
        "demo/ext.so": elf(needed=["libcudart.so.13", "libcufft.so.12"], runpath="$ORIGIN/../nvidia/cu13/lib")
    }
    path = wheel(tmp_path, files, requires=["nvidia-cuda-runtime>=13,<14", "nvidia-cufft; extra == 'fft'"])
    route = "RUNPATH $ORIGIN/../nvidia/cu13/lib"
    assert edges(path) == {
        ("ext.so", "libcudart.so.13"): ("package", "nvidia-cuda-runtime", route),
        ("ext.so", "libcufft.so.12"): ("package", "nvidia-cufft", route),
    }
    declared = link.build([read(path)]).declared[path.name]
    assert (declared["nvidia-cuda-runtime"].extra, declared["nvidia-cufft"].extra) == ("", "fft")


@pytest.mark.parametrize(
    ("marker", "extra"),
    [
        ("extra == 'fft'", "fft"),
        ("'fft' == extra", "fft"),
        ("(sys_platform == 'linux' and (\"fft\" == extra))", "fft"),
        ("sys_platform == 'win32' and 'fft' == extra", None),
        ("'fft' == sys_platform", None),
    ],
)
def test_a_requirement_belongs_to_the_extra_of_its_marker(tmp_path, marker, extra):
    path = wheel(tmp_path, {"demo/ext.so": elf()}, requires=[f"a; {marker}"])
    declared = link.build([read(path)]).declared[path.name]
    assert [known.extra for known in declared.values()] == ([] if extra is None else [extra])


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("cuda-toolkit[cudart,cufft]==12.*", {"nvidia-cuda-runtime-cu12", "nvidia-cufft-cu12"}),
        ("cuda-toolkit[cudart]>=13", {"nvidia-cuda-runtime"}),
        ("cuda-toolkit[cudart]==11.8.*", {"nvidia-cuda-runtime-cu11"}),
        ("torch", {"nvidia-cuda-runtime", "nvidia-cudnn-cu13"}),
        ("torch>=2.14", {"nvidia-cuda-runtime", "nvidia-cudnn-cu13"}),
        ("torch<2.11", {"nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12"}),
        ("torch==2.9.1", {"nvidia-cuda-runtime-cu12"}),
        ("jax[cuda12]", {"jax-cuda12-plugin", "nvidia-cufft-cu12"}),
        ("jax[cuda13]>=0.8", {"nvidia-cufft"}),
    ],
)
def test_requirements_that_carry_cuda_are_resolved(tmp_path, line, packages):
    path = wheel(tmp_path, {"demo/ext.so": elf()}, requires=[line])
    declared = link.build([read(path)]).declared[path.name]
    assert packages <= declared.keys()
    other = {"nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"} - packages
    assert not other & declared.keys() or "runtime" not in "".join(packages)


def test_requirements_for_other_platforms_count_for_nothing(tmp_path):
    path = wheel(
        tmp_path,
        {"demo/ext.so": elf()},
        requires=[
            "a; sys_platform == 'win32'",
            "b; platform_machine == 'x86_64'",
            "c; python_version < '3.9'",
            "d; platform_machine ~= 'x86_64'",  # means nothing: nobody knows
        ],
    )
    assert link.build([read(path)]).declared[path.name].keys() == {"b", "d"}


def test_importing_torch_loads_its_libraries(tmp_path):
    path = wheel(
        tmp_path, {"demo/ext.so": elf(needed=["libc10.so", "libcudart.so.13"])}, requires=["torch>=2.12"]
    )
    assert edges(path) == {
        ("ext.so", "libc10.so"): ("package", "torch", "import torch"),
        ("ext.so", "libcudart.so.13"): ("package", "nvidia-cuda-runtime", "import torch"),
    }


def test_the_undeclared_package_named_is_of_the_objects_own_major_else_of_the_wheels(tmp_path):
    files = {
        "demo/old.so": elf(needed=["libcudart.so.11.0", "libnccl.so.2"]),
        "demo/new.so": elf(needed=["libcudart.so.12", "libcublas.so.12", "libcusparse.so.12"]),
        "demo/any.so": elf(needed=["libnccl.so.2"]),
    }
    found = edges(wheel(tmp_path, files))
    assert found["old.so", "libnccl.so.2"] == ("package", "nvidia-nccl-cu11", "")
    assert found["new.so", "libcusparse.so.12"] == ("package", "nvidia-cusparse-cu12", "")
    assert found["any.so", "libnccl.so.2"] == ("package", "nvidia-nccl-cu12", "")


def test_a_wheel_beside_it_provides(tmp_path):
    one = wheel(tmp_path, {"demo/ext.so": elf(needed=["libbase.so"], runpath="$ORIGIN/../base/lib")})
    two = wheel(
        tmp_path, {"base/lib/libbase.so": elf(soname="libbase.so")}, name=CUDA12.replace("demo", "base")
    )
    assert edges(one, two) == {
        ("ext.so", "libbase.so"): ("sibling", "base/lib/libbase.so", "RUNPATH $ORIGIN/../base/lib")
    }


def test_a_required_package_of_the_librarys_name_provides_it(tmp_path):
    files = {"demo/ext.so": elf(needed=["libcudf.so", "librapids_logger.so", "libother.so"])}
    found = edges(wheel(tmp_path, files, requires=["libcudf-cu12==26.*", "rapids-logger"]))
    assert [found["ext.so", name][1:] for name in ("libcudf.so", "librapids_logger.so", "libother.so")] == [
        ("libcudf-cu12", "import libcudf-cu12"),
        ("rapids-logger", "import libcudf-cu12"),
        ("", ""),
    ]


def test_the_driver_is_the_machines(tmp_path):
    assert edges(wheel(tmp_path, {"demo/e.so": elf(needed=["libcuda.so.1"])})) == {
        ("e.so", "libcuda.so.1"): ("driver", "", "the driver")
    }


def test_a_grafted_library_with_its_old_soname_is_not_found_by_that_name(tmp_path):
    files = {
        "demo/ext.so": elf(needed=["libz9.so.1"], runpath="$ORIGIN"),
        "demo/libz9.0a1b2c3d.so.1": elf(soname="libz9.so.1"),
    }
    assert edges(wheel(tmp_path, files))["ext.so", "libz9.so.1"][2] == ""


def test_python_preloads_count_for_libraries_and_not_for_programs(tmp_path):
    program = elf(needed=["libcublas.so.12"], interpreter="/lib64/ld-linux-x86-64.so.2")
    files = {
        "demo/ext.so": elf(needed=["libcublas.so.12"]),
        "demo/tool": program,
        "demo/__init__.py": b"from cuda import pathfinder\nfor name in ('cublas',):\n"
        b"    pathfinder.load_nvidia_dynamic_lib(name)\n",
    }
    found = edges(wheel(tmp_path, files))
    assert found["ext.so", "libcublas.so.12"][2] == "preload demo/__init__.py"
    assert found["tool", "libcublas.so.12"][2] == ""


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("demo/a.so", "/env/lib/python/site-packages/demo/a.so"),
        ("demo-1.0.data/platlib/demo/a.so", "/env/lib/python/site-packages/demo/a.so"),
        ("demo-1.0.data/data/share/x", "/env/share/x"),
        ("demo-1.0.data/scripts/tool", "/env/bin/tool"),
        ("demo-1.0.data/headers/x.h", "/env/include/?/x.h"),
        ("neuron/.data/lib/a.so", "/env/lib/python/site-packages/neuron/.data/lib/a.so"),
    ],
)
def test_members_come_to_lie_where_pip_puts_them(member, path):
    assert layout.install_path(member) == path


def test_a_circle_of_libraries_is_one_load_set(tmp_path):
    names = [f"lib{number}.so" for number in range(40)]
    files = {f"demo/{name}": elf(soname=name, needed=names, rpath="$ORIGIN") for name in names}
    (held,) = link.build([read(wheel(tmp_path, files))]).load_sets
    assert {o.name for o in held.objects} == set(names)
