"""Upper triangles of products of thin matrices, without the square matrix where it pays.

Used for a few images at a time, inside one worker thread. Layouts depend on the size alone and are cached.
"""

from __future__ import annotations

import functools
from typing import TypeVar

import torch
from torch import Tensor

from rootpool.linalg import triangle_size

Rows = TypeVar("Rows", int, Tensor)

# Measured: up to this size one gather of the full symmetric matrix, for images of that many entries at a
# time, is faster than work by blocks of rows.
FULL_UP_TO = 768
FULL_ENTRIES = 2**19
# On accelerators, where a launch of a kernel takes as long as much arithmetic: square matrices of that many
# entries at a time (512 MB in float64).
ENTRIES_AT_ONCE = 2**26


def _in_few_launches(tensor: Tensor) -> bool:
    return tensor.device.type != "cpu"


def row_start(i: Rows, d: int) -> Rows:
    """Position of entry ``(i, i)`` in the row-major triangle."""
    return i * d - i * (i - 1) // 2


@functools.lru_cache(maxsize=64)
def _blocks(
    d: int, height: int, device: torch.device
) -> tuple[list[tuple[int, int, Tensor]], Tensor, int]:
    """Blocks of rows ``(begin, end, where their triangle is)``; the same of all of them; their size."""
    blocks, everywhere, size = [], [], 0
    for begin in range(0, d, height):
        end = min(begin + height, d)
        row, column = torch.triu_indices(
            end - begin, d - begin, dtype=torch.int32, device=device
        ).unbind()
        index = row * (d - begin) + column
        blocks.append((begin, end, index))
        everywhere.append(index + size)
        size += (end - begin) * (d - begin)
    return blocks, torch.cat(everywhere), size


def pack_product(W: Tensor, V: Tensor, out: Tensor) -> None:
    """``out <- triangle of W V^T``, for a symmetric product of ``(b, d, r)`` matrices.

    Blocks of rows from the diagonal on: little more than half of the multiplications. On accelerators the
    whole square, in fewer launches.
    """
    b, d, _ = W.shape
    height = 64 if d <= 256 else 128 if d <= 1024 else 256
    if _in_few_launches(W):
        height, at_once = d, max(1, ENTRIES_AT_ONCE // d**2)
        if b > at_once:
            for part in zip(*(t.split(at_once) for t in (W, V, out)), strict=True):
                pack_product(*part)
            return
    blocks, index, size = _blocks(d, height, W.device)
    if len(blocks) > 1 and d > 1024:  # one block at a time, which stays in the cache
        for w, v, row in zip(W, V, out, strict=True):
            for begin, end, where in blocks:
                block = torch.mm(w[begin:end], v[begin:].mT).view(-1)
                row[row_start(begin, d) : row_start(end, d)] = block.index_select(0, where)
        return
    buffer, offset = W.new_empty(b, size), 0
    for begin, end, _ in blocks:
        rows, columns = end - begin, d - begin
        target = buffer[:, offset : offset + rows * columns].view(b, rows, columns)
        torch.bmm(W[:, begin:end], V[:, begin:].mT, out=target)
        offset += rows * columns
    # Narrow first: gathering float32 is faster than gathering float64.
    torch.index_select(buffer.to(out.dtype), 1, index, out=out)


@functools.lru_cache(maxsize=64)
def _full_index(d: int, device: torch.device) -> Tensor:
    """Where each entry of the symmetric matrix is in the triangle, ``(d * d,)``."""
    k = torch.arange(d, device=device)
    low, high = torch.minimum(k[:, None], k), torch.maximum(k[:, None], k)
    return (row_start(low, d) + high - low).flatten().int()


@functools.lru_cache(maxsize=64)
def _windows(
    d: int, dtype: torch.dtype, device: torch.device
) -> list[tuple[int, int, Tensor, Tensor]]:
    """Blocks of rows ``(begin, end, start of each row's window, mask of the diagonal block)``."""
    blocks = []
    for begin in range(0, d, 128):
        end = min(begin + 128, d)
        i = torch.arange(begin, end, device=device)
        mask = torch.ones(end - begin, end - begin, dtype=dtype, device=device).triu_()
        blocks.append((begin, end, row_start(i, d) - (i - begin), mask))
    return blocks


def unpack_times(g: Tensor, W: Tensor) -> Tensor:
    """``(G + G^T) W`` for the upper triangular ``G`` with the triangle ``g``; ``(b, d, r)``."""
    whole = W.shape[1] <= FULL_UP_TO or _in_few_launches(W)
    return (_unpack_full if whole else _unpack_rows)(g, W)


def _unpack_full(g: Tensor, W: Tensor) -> Tensor:
    b, d, _ = W.shape
    T = torch.empty_like(W)
    entries = ENTRIES_AT_ONCE if _in_few_launches(g) else FULL_ENTRIES
    at_once = max(1, min(b, entries // d**2))
    # The same memory for all: with new ones, two threads spend their time on page faults.
    gathered, S = g.new_empty(at_once, d * d), W.new_empty(at_once, d, d)
    for part, target, factor in zip(*(t.split(at_once) for t in (g, T, W)), strict=True):
        narrow, wide = gathered[: len(part)], S[: len(part)]
        torch.index_select(part, 1, _full_index(d, g.device), out=narrow)
        wide.copy_(narrow.view_as(wide))
        wide.diagonal(dim1=1, dim2=2).mul_(2)
        torch.bmm(wide, factor, out=target)
    return T


def _unpack_rows(g: Tensor, W: Tensor) -> Tensor:
    b, d, _ = W.shape
    T = torch.zeros_like(W)
    size = triangle_size(d)
    for k in range(b):
        for begin, end, starts, mask in _windows(d, W.dtype, W.device):
            width = d - begin
            # All windows of this width of the packed vector; each row of the block is one of them.
            windows = g[k].as_strided((size - width + 1, width), (1, 1))
            G = windows.index_select(0, starts).to(W.dtype)
            G[:, : end - begin] *= mask
            T[k, begin:].addmm_(G.mT, W[k, begin:end])
            T[k, begin:end].addmm_(G, W[k, begin:])
    return T
