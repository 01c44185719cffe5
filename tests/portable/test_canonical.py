"""Constants as bytes: the same constant is the same bytes, and the bytes are it again."""

import math
import struct
from typing import Any

import pytest
import torch
from gramme import _C

portable = _C.testing.testing_portable

NAN, OTHER_NAN = struct.unpack("<2d", struct.pack("<2Q", 0x7FF8000000000000, 0x7FF8000000000001))

# No two of these are the same constant.
DIFFERENT: list[Any] = [
    None,
    True,
    False,
    ...,
    NotImplemented,
    0,
    1,
    -1,
    2**40,
    -(2**100),
    0.0,
    -0.0,
    1.0,
    math.inf,
    NAN,
    OTHER_NAN,
    0j,
    complex(0.0, -0.0),
    complex(-0.0, 0.0),
    "",
    "1",
    "a",
    "ä",
    "\ud800",
    "\x00",
    "a b",
    b"",
    b"1",
    b"a",
    (),
    (1,),
    (True,),
    (1.0,),
    ((1,),),
    (1, 2),
    (2, 1),
    ("ab",),
    ("a", "b"),
    frozenset(),
    frozenset({1}),
    frozenset({1.0}),
    frozenset({(1,)}),
    frozenset({"a", "b"}),
    range(3),
    range(0, 4, 2),
    slice(None),
    slice(0, None),
    slice(0, 1, 2),
    torch.float32,
    torch.float64,
    torch.strided,
    torch.sparse_coo,
    torch.contiguous_format,
    torch.channels_last,
    torch.device("cpu"),
    torch.device("cpu", 0),
    torch.device("cuda", 1),
    torch.Size([]),
    torch.Size([1]),
    torch.Size([1, 2]),
]


def test_no_two_constants_are_the_same_bytes() -> None:
    encoded = [portable.encode(constant) for constant in DIFFERENT]
    assert None not in encoded
    for i, each in enumerate(encoded):
        assert encoded.index(each) == i, (DIFFERENT[encoded.index(each)], DIFFERENT[i])


@pytest.mark.parametrize("constant", DIFFERENT, ids=[f"{i}-{type(c).__name__}" for i, c in enumerate(DIFFERENT)])
def test_the_bytes_are_the_constant_again(constant: Any) -> None:
    encoded = portable.encode(constant)
    again = portable.decode(encoded)
    assert type(again) is type(constant)
    assert portable.encode(again) == encoded
    if not isinstance(constant, float | complex):
        assert again == constant


def test_a_frozenset_is_its_members_in_whatever_order() -> None:
    members = [f"name{i}" for i in range(40)]
    assert portable.encode(frozenset(members)) == portable.encode(frozenset(reversed(members)))


def test_names_are_interned_again() -> None:
    name = "".join(["some", "_name"])
    assert portable.decode(portable.encode(name)) is portable.decode(portable.encode(name))


@pytest.mark.parametrize("other", [object(), [], {}, {1}, len, int, (1, []), torch.ones(1), type("S", (str,), {})("a")])
def test_other_objects_have_no_bytes(other: Any) -> None:
    assert portable.encode(other) is None


def test_a_tuple_without_end_has_no_bytes() -> None:
    deep: tuple[Any, ...] = ()
    for _ in range(1000):
        deep = (deep,)
    assert portable.encode(deep) is None


@pytest.mark.parametrize(
    "wrong",
    [b"", b"?", b"N!", b"i", b"f1234567", b"s\x04\0\0\0\0\0\0\0\0\0\x11\0\0", b"s\x03\0\0\0\0\0\0\0abc",
     b"(\xff\xff\xff\xff\xff\xff\xff\xff", b"(\x02\0\0\0\0\0\0\0N", b"t\x06\0\0\0\0\0\0\0Tensor",
     b"b\x09\0\0\0\0\0\0\0a", b"(\x01\0\0\0\0\0\0\0" * 5000],
)  # fmt: skip
def test_other_bytes_are_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="not the bytes|invalid literal"):
        portable.decode(wrong)


def test_cut_bytes_are_refused() -> None:
    whole = portable.encode((1, "text", (2.5, frozenset({3})), slice(1, 2), b"bytes", torch.float32))
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="not the bytes|invalid literal"):
            portable.decode(whole[:size])
