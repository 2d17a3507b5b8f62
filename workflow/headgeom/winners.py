"""The source-winner rule of one attention operation (spec, section 6)."""

import torch
from torch import Tensor

REGIMES = ("retriever", "mixer", "reset")


def query_positions(length: int, queries: int) -> list[int]:
    """Query positions that vote: evenly spaced in the window's second half, the last position included."""
    spaced = torch.linspace(length // 2, length - 1, queries, dtype=torch.float64) if queries > 1 else [length - 1]
    return sorted({round(float(position)) for position in spaced})


def role_contributions(contributions: Tensor, rows: Tensor, visible: Tensor) -> Tensor:
    """Contribution norms by role.

    contributions: [..., rows, sources], a_j ||v_j|| of each measured query row; rows: [rows] query positions;
    visible: [rows, sources] bool. Returns [..., rows, 3]: of the current token, of the sink (NaN where it is
    hidden) and the largest of any other source (-inf where there is none).
    """
    current = contributions.gather(-1, rows.expand(*contributions.shape[:-2], -1).unsqueeze(-1))
    sink = torch.where(visible[:, 0], contributions[..., 0], torch.nan).unsqueeze(-1)
    others = visible.clone()
    others[:, 0] = False
    others[torch.arange(len(rows), device=rows.device), rows] = False
    largest = torch.where(others, contributions, -torch.inf).amax(-1, keepdim=True)
    return torch.cat((current, sink, largest), dim=-1)


def votes(roles: Tensor) -> Tensor:
    """Votes [..., 3] int64 over the rows of role contributions [..., rows, 3].

    A tie goes to the source of lower index: the sink first, the current token last.
    """
    by_index = roles[..., [1, 2, 0]].nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    winner = torch.tensor([1, 2, 0], device=roles.device)[by_index.argmax(-1)]
    return torch.nn.functional.one_hot(winner, 3).sum(-2)
