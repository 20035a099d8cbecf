"""The kernel that a name means, and the arguments that its parameters take."""

import pytest

from gpuforge.runtime import host_access, signature
from gpuforge.runtime.signature import Entry, Given, Parameter, check, limits, matching, outside, spelled


def entry(name: str, *types: str, symbol: str = "") -> Entry:
    return Entry(symbol or f"_Z{name}{types}", name, tuple(Parameter(each, 8) for each in types))


SCALE = entry("scale", "float *", "unsigned long")
KERNELS = (
    SCALE,
    entry("ns::scale", "float *"),
    entry("ns::deep::copy", "float *"),
    entry("heat<float>", "float *", "int"),
    entry("heat<double>", "double *", "int"),
    entry("heat<double>", "double *", "long"),
    entry("(anonymous namespace)::hidden", "float *"),
    entry("tile<ns::Wide<4>, 8>", "const float *"),
    Entry("plain", "plain", (Parameter("", 8), Parameter("", 4))),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("scale", [0]),
        ("ns::scale", [1]),
        ("copy", [2]),
        ("deep::copy", [2]),
        ("ns::deep::copy", [2]),
        ("s::deep::copy", []),
        ("heat", [3, 4, 5]),
        ("heat<float>", [3]),
        ("heat<double>", [4, 5]),
        ("heat<double>( double*,\tlong )", [5]),
        ("heat<double>(double*, lo ng)", []),
        ("heat(double *, int)", [4]),
        ("heat<int>", []),
        ("hidden", [6]),
        ("tile", [7]),
        ("tile< ns :: Wide<4>,8 >", [7]),
        ("tile<ns::Wide<8>, 8>", []),
        ("scale(float*,unsigned  long)", [0]),
        ("scale(float *, unsignedlong)", []),
        ("scale(float *)", [1]),
        ("scale(double *)", []),
        ("plain", [8]),
        ("_Zscale('float *', 'unsigned long')", [0]),
        ("", []),
        ("Scale", []),
        ("(((", []),
        ("a<b<", []),
    ],
)
def test_the_kernels_that_a_name_may_mean(wanted, found):
    assert [KERNELS.index(each) for each in matching(KERNELS, wanted)] == found


def test_the_name_that_is_spelled_alike_comes_first():
    names = [each.signature for each in KERNELS]
    assert signature.nearest(names, "hiden")[0] == "(anonymous namespace)::hidden(float *)"
    assert signature.nearest(names, "Copy")[0] == "ns::deep::copy(float *)"


def array(dtype: str, kind: str = "numpy.ndarray") -> Given:
    return Given("array", dtype, 8, kind)


def scalar(dtype: str) -> Given:
    return Given("scalar", dtype, int(dtype.lstrip("<|>")[1:]), f"numpy.{dtype}")


ADDRESS = Given("address", "", 8, "ctypes.c_void_p")
FITTING = [
    ("float *", array("<f4")),
    ("const float *", array("<f4")),
    ("float const volatile *", array("<f4")),
    ("float *", ADDRESS),
    ("float2 *", array("<c8")),
    ("float2 *", array("<f4")),
    ("float4 *", array("<f4")),
    ("double2 *", array("<c16")),
    ("thrust::complex<float> *", array("<c8")),
    ("__half *", array("<f2")),
    ("__half2 *", array("<f2")),
    ("__nv_bfloat16 *", array("<V2")),
    ("uchar4 *", array("|u1")),
    ("longlong2 *", array("<i8")),
    ("void *", array("<f8")),
    ("const char *", array("<f8")),
    ("unsigned char *", array("|b1")),
    ("std::byte *", array("<i4")),
    ("ns::Particle *", array("<f4")),
    ("float **", array("<u8")),
    ("float (*) [3]", array("<f4")),
    ("float *", array("|V4")),
    ("float *", array("|V12")),
    ("float *", array("")),
    ("long *", array("<i8")),
    ("long long *", array("<i8")),
    ("", array("<f8")),
    ("", scalar("<f8")),
    ("", ADDRESS),
    ("float", scalar("<f4")),
    ("double", scalar("<f8")),
    ("unsigned long", scalar("<i8")),
    ("int", scalar("<u4")),
    ("unsigned long", ADDRESS),
    ("bool", scalar("|b1")),
    ("unsigned char", scalar("|b1")),
    ("float2", scalar("<c8")),
    ("float2", Given("struct", "", 8, "Pair")),
    ("ns::Mode", scalar("<i4")),
    ("ns::Particle", Given("struct", "", 24, "Particle")),
    ("__half", scalar("<f2")),
    ("__nv_bfloat16", scalar("<u2")),
]


@pytest.mark.parametrize(("type_", "given"), FITTING, ids=lambda each: getattr(each, "dtype", each))
def test_an_argument_that_fits(type_, given):
    parameter = Parameter(type_, given.size)
    assert signature.misfit(parameter, 0, given) == ""
    check(Entry("k", "k", (parameter,)), [given])


@pytest.mark.parametrize(
    ("type_", "size", "given", "message"),
    [
        ("float *", 8, array("<f8"), "an array of float64 (numpy.ndarray) is given, and the parameter is float *: "
         "pass an array of float32, as from .astype('float32')"),
        ("const float *", 8, array("<f8", "torch.Tensor"), "an array of float64 (torch.Tensor) is given, and the "
         "parameter is const float *: pass an array of float32, as from .to(torch.float32)"),
        ("unsigned int *", 8, array("<i4"), "an array of int32 (numpy.ndarray) is given, and the parameter is "
         "unsigned int *: pass an array of uint32, as from .view('uint32')"),
        ("bool *", 8, array("|u1"), "an array of uint8 (numpy.ndarray) is given, and the parameter is bool *: pass "
         "an array of bool, as from .view('bool')"),
        ("int *", 8, array("<i8"), "an array of int64 (numpy.ndarray) is given, and the parameter is int *: pass an "
         "array of int32, as from .astype('int32')"),
        ("int *", 8, array("<f4"), "an array of float32 (numpy.ndarray) is given, and the parameter is int *: pass "
         "an array of int32, as from .astype('int32')"),
        ("float *", 8, array("<c8"), "an array of complex64 (numpy.ndarray) is given, and the parameter is float *: "
         "pass an array of float32, as from .view('float32')"),
        ("float4 *", 8, array("<f2"), "an array of float16 (numpy.ndarray) is given, and the parameter is "
         "float4 *: pass an array of float32, as from .astype('float32')"),
        ("float2 *", 8, array("<c16"), "an array of complex128 (numpy.ndarray) is given, and the parameter is "
         "float2 *: pass an array of float32 or complex64, as from .astype('complex64')"),
        ("__nv_bfloat16 *", 8, array("<f2"), "an array of float16 (numpy.ndarray) is given, and the parameter is "
         "__nv_bfloat16 *: pass an array of bfloat16, as from .astype(ml_dtypes.bfloat16)"),
        ("__half *", 8, array("<V2"), "an array of bfloat16 (numpy.ndarray) is given, and the parameter is "
         "__half *: pass an array of float16, as from .astype('float16')"),
        ("float *", 8, array("|V6"), "an array of |V6 (numpy.ndarray) is given, and the parameter is float *: pass "
         "an array of float32, as from .astype('float32')"),
        ("float *", 8, array(">f4"), "an array of float32 (numpy.ndarray) is not in the byte order of this machine: "
         "convert it with .astype('f4')"),
        ("float *", 8, scalar("<u8"), "numpy.<u8 is given, and the parameter is a pointer, float *: pass an array, "
         "or an address as ctypes.c_void_p"),
        ("unsigned long", 8, array("<f4"), "an array of float32 (numpy.ndarray) is given, and the parameter is a "
         "value: unsigned long: pass numpy.uint64(…)"),
        ("ns::Mode", 8, array("<f4"), "an array of float32 (numpy.ndarray) is given, and the parameter is a value: "
         "ns::Mode"),
        ("double", 8, scalar("<i8"), "numpy.<i8 is given, and the parameter is double: pass numpy.float64(…)"),
        ("float", 4, scalar("<i4"), "numpy.<i4 is given, and the parameter is float: pass numpy.float32(…)"),
        ("int", 4, scalar("<f4"), "numpy.<f4 is given, and the parameter is int: pass numpy.int32(…)"),
        ("int", 4, scalar("<i8"), "numpy.<i8 is given, and the parameter is int: pass numpy.int32(…)"),
        ("bool", 1, scalar("|u1"), "numpy.|u1 is given, and the parameter is bool: pass numpy.bool_(…)"),
        ("double", 8, ADDRESS, "ctypes.c_void_p is given, and the parameter is double: pass numpy.float64(…)"),
        ("ns::Mode", 4, scalar("<i8"), "numpy.<i8 has 8 bytes, and the parameter, ns::Mode, has 4 bytes"),
        ("", 4, array("<f4"), "an array of float32 (numpy.ndarray) has 8 bytes, and the parameter has 4 bytes"),
        ("", 1, scalar("<f4"), "numpy.<f4 has 4 bytes, and the parameter has 1 byte"),
    ],
)  # fmt: skip
def test_an_argument_that_does_not_fit(type_, size, given, message):
    parameter = Parameter(type_, size)
    assert signature.misfit(parameter, 2, given) == f"argument 2: {message}"


def test_the_number_of_arguments_is_checked_with_the_signature():
    with pytest.raises(
        TypeError, match=r"^scale\(float \*, unsigned long\) takes 2 arguments, and 1 are given$"
    ):
        check(SCALE, [ADDRESS])
    with pytest.raises(TypeError, match=r"^plain\(8 bytes, 4 bytes\) takes 2 arguments, and 3 are given$"):
        check(KERNELS[-1], [ADDRESS] * 3)
    with pytest.raises(TypeError, match=r"argument 0: .*\. The kernel is scale\(float \*, unsigned long\)$"):
        check(SCALE, [array("<f8"), scalar("<u8")])
    check(signature.plain_entry("any"), [ADDRESS] * 3)


def test_the_values_of_an_integer_of_the_other_signedness():
    assert limits(Parameter("unsigned long", 8), "<i8") == (0, 2**63 - 1)
    assert limits(Parameter("int", 4), "<u4") == (0, 2**31 - 1)
    assert limits(Parameter("int", 4), "<i4") is None
    assert limits(Parameter("float", 4), "<f4") is None
    assert limits(Parameter("", 4), "<u4") is None
    assert outside(Parameter("unsigned long", 8), 1, -1) == (
        "argument 1: -1 does not fit the parameter's type, unsigned long"
    )


def test_a_python_number_as_it_can_be_passed():
    assert spelled(Parameter("unsigned long long", 8), 5) == "numpy.uint64(5)"
    assert spelled(Parameter("const float", 4), 0.5) == "numpy.float32(0.5)"
    assert spelled(Parameter("", 8), 5) == ""


@pytest.mark.parametrize(
    ("type_", "found"),
    [
        ("const float *", True),
        ("float const *", True),
        ("const float *__restrict__", True),
        ("const float *const", True),
        ("float *const", False),
        ("float *", False),
        ("const float **", False),
        ("float *const *", True),
        ("ns::Box<const float> *", False),
        ("const ns::Box<int> *", True),
        ("const float", False),
        ("", False),
    ],
)
def test_pointers_through_which_a_kernel_only_reads(type_, found):
    assert host_access.reads_only(Parameter(type_, 8)) is found


@pytest.mark.parametrize("name", [b"scale", 5, None, "scale\0"])
def test_a_name_is_text(name):
    with pytest.raises(
        TypeError, match=r"^a kernel's name is a str without NUL, not (b'scale'|5|None|'scale.x00')$"
    ):
        matching(KERNELS, name)  # type: ignore[arg-type]
