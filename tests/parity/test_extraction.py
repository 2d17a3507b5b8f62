"""What extraction measures does not depend on how documents and layers are put together."""

import numpy as np
import pytest
import torch

from families import tiny_model
from headgeom import attention, extraction, geometry, rankings

LENGTH, DOCUMENTS = 24, 6
SETTINGS = geometry.Settings(LENGTH, [1, 2, 4, 8, 16], ["euclidean", "cosine"])


def measured(model, tokens, batch, pairs=0):
    orders = torch.stack([rankings.random_orders(0, "c", str(i), 4, LENGTH) for i in range(len(tokens))])
    parts = [
        extraction.measure_batch(model, tokens[i : i + batch], orders[i : i + batch], [11, 17, LENGTH - 1], SETTINGS,
                                 max(0, min(pairs - i, batch)))
        for i in range(0, len(tokens), batch)
    ]  # fmt: skip
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


# gemma3 has layers that do not see the sink between layers that do.
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_batches_and_groups_of_layers_change_nothing(family, monkeypatch):
    model = attention.install(tiny_model(family))
    tokens = torch.randint(3, 96, (DOCUMENTS, LENGTH), generator=torch.Generator().manual_seed(1))
    expected = measured(model, tokens, DOCUMENTS, pairs=2)
    assert expected["fp"].shape == (DOCUMENTS, 3, 4, 2, 2, 2, 5)
    assert len(np.unique(expected["inv"])) > 20, "equal counts would hide documents or layers that are mixed up"
    for together in (1, 1 << 20):
        monkeypatch.setattr(extraction, "TOGETHER", {"cpu": together})
        for batch in (1, 4):
            found = measured(model, tokens, batch, pairs=2)
            for name, x in expected.items():
                if x.dtype.kind == "f":
                    np.testing.assert_allclose(found[name], x, atol=2e-6, rtol=1e-5, err_msg=name)
                else:
                    np.testing.assert_array_equal(found[name], x, err_msg=name)
