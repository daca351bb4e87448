"""The small vision transformer that the SME authors attack: the whole image is its single patch."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Multi-head self-attention, queries, keys and values without bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(N, L, D) -> (N, L, D). Written out because the fused kernel has no second derivative."""
        n, length, width = tokens.shape
        q, k, v = self.qkv(tokens).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = functional.softmax(q @ k.transpose(-2, -1) / math.sqrt(width // self.heads), dim=-1)
        mixed: Tensor = self.out((weights @ v).transpose(1, 2).reshape(n, length, width))
        return mixed


class Block(nn.Module):
    """Transformer block; the first one of the SME net has neither a first norm nor a residual around attention."""

    def __init__(self, width: int, heads: int, ratio: int, *, first: bool) -> None:
        super().__init__()
        self.first = first
        self.norm1: nn.Module = nn.Identity() if first else nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, ratio * width), nn.GELU(), nn.Linear(ratio * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """(N, L, D) -> (N, L, D)."""
        attended = self.attention(self.norm1(tokens))
        tokens = attended if self.first else tokens + attended
        mixed: Tensor = tokens + self.mlp(self.norm2(tokens))
        return mixed


class VisionTransformer(nn.Module):
    """One patch, a class token, four blocks; class token and positions start at zero."""

    def __init__(
        self, shape: tuple[int, int, int], classes: int, *, width: int = 384, depth: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        self.patch = nn.Linear(math.prod(shape), width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, 2, first=index == 0) for index in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, classes))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, classes)."""
        patch = self.patch(x.flatten(1)).unsqueeze(1)
        tokens = torch.cat([self.cls.expand(len(x), -1, -1), patch], dim=1) + self.position
        logits: Tensor = self.head(self.norm(self.blocks(tokens)[:, 0]))
        return logits


def vit(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The SME authors' ViT."""
    return VisionTransformer(shape, classes)
