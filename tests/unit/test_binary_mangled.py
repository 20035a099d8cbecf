"""Mangled names, as nvcc 11.8 to 13.0 write them; c++filt reads them the same way."""

import time

import pytest
from draws import draws
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.binary.mangled import Function, function

NAMES = {
    "_Z5scalePffm": "scale(float *, float, unsigned long)",
    "_Z4nonev": "none()",
    "_Z4statPi": "stat(int *)",
    "_ZN36_GLOBAL__N__a77d65ec_4_k_cu_97983c1b6hiddenEPf": "(anonymous namespace)::hidden(float *)",
    "_ZN2ns4deep4copyEPKfPf": "ns::deep::copy(const float *, float *)",
    "_ZN2ns4wideENS_4WideIdEEPS1_": "ns::wide(ns::Wide<double>, ns::Wide<double> *)",
    "_Z4heatIfEvPT_i": "heat<float>(float *, int)",
    "_Z4heatI6__halfEvPT_i": "heat<__half>(__half *, int)",
    "_Z4litsIiLin4ELb1EL4Mode1ELj7EEvT_PS1_": "lits<int, -4, true, (Mode)1, 7>(int, int *)",
    "_Z4packIJidEEvPfDpT_": "pack<int, double>(float *, int, double)",
    "_Z4packIJEEvPfDpT_": "pack<>(float *)",
    "_Z4refsIJRiiEEvDpOT_": "refs<int &, int>(int &, int &&)",
    "_Z2fnIXadL_Z2sqfEEEvPf": "fn<&sq>(float *)",
    "_Z2ttIN2ns4WideEfEvT_IT0_EPS4_": "tt<ns::Wide, float>(ns::Wide<float>, ns::Wide<float> *)",
    "_Z6nestedN5Outer5InnerEPS0_PKN2ns4WideIPKfEE": (
        "nested(Outer::Inner, Outer::Inner *, const ns::Wide<const float *> *)"
    ),
    "_Z4manybcahstijlxyfdwDsDi6__half13__nv_bfloat167__half26float4PPfPVKiPKS3_PFviEPA3_f3OldP8ParticlePvPK4Modem4int34"
    "dim3yPePn": (
        "many(bool, char, signed char, unsigned char, short, unsigned short, int, unsigned int, long, long long, "
        "unsigned long long, float, double, wchar_t, char16_t, char32_t, __half, __nv_bfloat16, __half2, float4, "
        "float **, const volatile int *, float *const *, void (*)(int), float (*)[3], Old, Particle *, void *, "
        "const Mode *, unsigned long, int3, dim3, unsigned long long, long double *, __int128 *)"
    ),
    "_Z5applyIZ4hostvEUliE_EvT_i": "apply<host()::{lambda(int)#1}>(host()::{lambda(int)#1}, int)",
    "_Z1fSt4pairIiSt5arrayIfLm4EEE": "f(std::pair<int, std::array<float, 4>>)",
    "_Z1fMN2ns1AEKFviE": "f(void (ns::A::*)(int) const)",
    "_Z1fM1Af": "f(float A::*)",
    "_Z1fPA2_A3_f": "f(float (*)[2][3])",
    "_Z1fIDnEvT_": "f<std::nullptr_t>(std::nullptr_t)",
    "_Z1fDF16bu6__bf16": "f(__bf16, __bf16)",
    "_Z1fILl5EEvv": "f<5>()",
    "_Z1fPFvPFvvEE": "f(void (*)(void (*)()))",
    "_Z1fB5cxx11i": "f[abi:cxx11](int)",
}


@pytest.mark.parametrize("symbol", NAMES)
def test_a_function(symbol):
    found = function(symbol)
    assert found is not None
    assert found.parameters is not None
    assert f"{found.name}({', '.join(found.parameters)})" == NAMES[symbol]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        # the result is an expression
        ("_ZN2ns5cheapIfEENSt9enable_ifIXsr3std11is_integralIT_EE5valueEvE4typeEPS2_", "ns::cheap<float>"),
        ("_Z4scalDTplfp_fp_E", "scal"),
        ("_Z5scalePfQQQ", "scale"),
        ("_Z5scale", "scale"),
        ("_Z1fS_", "f"),
        ("_Z1fT_", "f"),
        ("_Z1fDv4_f", "f"),  # a vector of GCC
    ],
)
def test_a_name_whose_types_cannot_be_read(symbol, name):
    assert function(symbol) == Function(name, None)


@pytest.mark.parametrize(
    "symbol",
    [
        "",
        "scale",
        "_Z",
        "_ZN",
        "_Z9scale",
        "_Z0",
        "_Zplff",
        "_Z99999999999999999999a",
        "_ZTI1A",
        "_ZS_",
    ],
)
def test_what_is_not_a_functions_name(symbol):
    assert function(symbol) is None


@pytest.mark.parametrize(
    "symbol",
    [
        "_Z1f" + "P" * 100_000 + "i",
        "_ZN" * 10_000,
        "_Z1fI" + "J" * 10_000,
        "_Z1f" + "1A" + "I" * 10_000,
        "_Z1fPFv" + "".join(f"S{n}_S{n}_" for n in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        "_Z1f1AI" + "S_" * 10 + "E" + "".join(f"1AI{f'S{n}_' * 9}E" for n in "0123456789ABCDEFGHIJ"),
        "_Z1fILi" + "9" * 100_000 + "E",
        "_Z1fA" + "9" * 100_000 + "_i",
    ],
)
def test_an_endless_name_is_given_up_soon(symbol):
    started = time.process_time()
    function(symbol)
    assert time.process_time() - started < 1


PARTS = [
    "_Z",
    "N",
    "E",
    "I",
    "J",
    "L",
    "P",
    "K",
    "V",
    "S_",
    "S0_",
    "St",
    "T_",
    "T0_",
    "1f",
    "2ns",
    "Dp",
    "F",
    "A3_",
]
PARTS += [
    "i",
    "f",
    "v",
    "b1",
    "Xad",
    "_Z1gv",
    "Z",
    "UlvE_",
    "Ut_",
    "M",
    "DF16b",
    "Dv2_",
    "B1a",
    "u1x",
    "n",
    "_",
]


@draws(400)
@given(st.lists(st.sampled_from(PARTS), max_size=24).map("".join), st.text(max_size=6))
def test_no_text_raises(symbol, rest):
    function(f"_Z{symbol}{rest}")
