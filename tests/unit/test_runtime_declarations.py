"""The parameters of C functions are read from source text."""

import pytest

from gpuforge.runtime.declarations import declared, parameters_of
from gpuforge.runtime.signature import Entry

PLAIN = "scale(unsigned long long, float, float *)"


def read(text: str, name: str = "scale") -> list[str]:
    return [Entry(name, name, parameters).signature for parameters in declared(text, name)]


@pytest.mark.parametrize(
    "text",
    [
        'extern "C" void scale(unsigned long long n, float a, float *x) {}',
        'extern "C" {\nvoid\nscale(unsigned long long int n,\n  const float a, float *__restrict__ x);\n}',
        "void scale(long long unsigned, float, float x[]) noexcept {",
        "__global__ void __launch_bounds__(256, 2) scale(unsigned long long n, float a = 1, float *const x) {",
        '__attribute__((visibility("default"))) void scale(unsigned long long n /* , int */, float a, float x[8]);',
        "#define scale(x) void scale(int)\nvoid scale(unsigned long long n, float a, float *x);",
        "// void scale(int);\n/* void scale(int); */ void scale(unsigned long long n, float a, float *x) { scale(1); }",
        'char *text = "void scale(int);"; void scale(unsigned long long n, float a, float *x);',
        "void rescale(int); void other() { ns::scale(1); p.scale(2); } void scale(unsigned long long, float, float *);",
    ],
)
def test_a_declaration_is_read(text):
    assert set(read(text)) == {PLAIN}


@pytest.mark.parametrize(
    ("parameter", "label", "size"),
    [
        ("const double *x", "const double *", 8),
        ("double const *x", "const double *", 8),
        ("float **x", "float **", 8),
        ("const void *", "const void *", 8),
        ("std::size_t n", "unsigned long", 8),
        ("uint32_t", "unsigned int", 4),
        ("unsigned n", "unsigned int", 4),
        ("signed char c", "signed char", 1),
        ("long int n", "long", 8),
        ("short unsigned int n", "unsigned short", 2),
        ("bool b", "bool", 1),
        ("real a", "real", 0),
        ("struct pair p", "pair", 0),
        ("pair *p", "pair *", 8),
        ("float4 *p", "float4 *", 8),
        ("std::vector<int> &v", "8 bytes", 8),
        ("void (*f)(int, int)", "8 bytes", 8),
        ("ns::Box<int, 3> b", "ns::Box<int, 3>", 0),
    ],
)
def test_types_are_written_as_in_a_signature(parameter, label, size):
    ((found,),) = declared(f"void f({parameter});", "f")
    assert (found.label, found.size) == (label, size)


@pytest.mark.parametrize(
    "text",
    [
        "int scale(int);",
        "x = scale(1);",
        "MAKE(scale)",
        "void scale(int",
        "",
        "void scale;",
        "#define v void scale(int);",
    ],
)
def test_what_is_not_a_function_without_a_result(text):
    assert read(text) == []


@pytest.mark.parametrize("text", ["void scale(void);", "void scale() {}"])
def test_a_function_without_parameters(text):
    assert read(text) == ["scale()"]


def test_files_for_the_cpu_count_first_and_what_differs_is_not_known(tmp_path):
    assert parameters_of(str(tmp_path / "nowhere"), "scale") is None
    (tmp_path / "mod").mkdir()
    (tmp_path / "mod" / "scale.cu").write_text('extern "C" __global__ void scale(float *x);')
    (tmp_path / "mod" / "scale.cl").write_text("__kernel void scale(__global float *x, ulong n);")
    found = parameters_of(str(tmp_path), "scale")
    assert found
    assert [each.type for each in found] == ["float *"]
    (tmp_path / "mod" / "scale.cpp").write_text('extern "C" void scale(double *x) {}')
    (tmp_path / "mod" / "scale.h").write_text('extern "C" void scale(double *y);')
    found = parameters_of(str(tmp_path), "scale")
    assert found
    assert [each.type for each in found] == ["double *"]
    (tmp_path / "mod" / "other.h").write_text("#ifdef WIDE\nvoid scale(double *x, int n);\n#endif")
    assert parameters_of(str(tmp_path), "scale") is None
    assert parameters_of(str(tmp_path), "nothing") is None
