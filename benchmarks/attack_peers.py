"""What the peers of `benchmarks/assessment.py` say; run by the Python of their own environment.

    python -m venv peers && peers/bin/pip install dp-accounting scikit-learn tqdm six packaging
    peers/bin/pip install --no-deps jax-privacy adversarial-robustness-toolbox
    VOILE_ATTACK_PEERS=peers/bin/python python -m benchmarks assessment

Reads a question as JSON on standard input, answers on standard output, and needs no voile.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def one_run(question: dict[str, Any]) -> dict[str, Any]:
    """Bounds of jax-privacy, whose module of audits loads without jax."""
    folder = importlib.util.find_spec("jax_privacy")
    assert folder is not None
    assert folder.submodule_search_locations is not None
    path = Path(folder.submodule_search_locations[0]) / "auditing.py"
    spec = importlib.util.spec_from_file_location("auditing", path)
    assert spec is not None
    assert spec.loader is not None
    auditing = importlib.util.module_from_spec(spec)
    sys.modules["auditing"] = auditing
    spec.loader.exec_module(auditing)
    delta, risk = question["delta"], question["risk"]
    return {
        "plain": [auditing._epsilon_one_run(0, *case, risk, delta) for case in question["cases"]],
        "curve": [
            auditing._epsilon_one_run_fdp(1e-6, *case, risk, delta) for case in question["cases"]
        ],
    }


def membership(question: dict[str, Any]) -> dict[str, Any]:
    """A forest on the outputs of a network, half of the rows known to it, half to be told apart."""
    import numpy as np
    from art.attacks.inference.membership_inference import (  # type: ignore[import-not-found]
        MembershipInferenceBlackBox,
    )
    from art.estimators.classification import SklearnClassifier  # type: ignore[import-not-found]
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier

    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    draw = np.random.default_rng(question["seed"])
    labels = np.where(
        draw.random(len(labels)) < 0.2, 1 - labels, labels
    )  # something to learn by heart
    known_in, known_out, tried_in, tried_out = np.array_split(draw.permutation(len(rows))[:560], 4)
    network = MLPClassifier((64,), max_iter=2000, random_state=0)
    inside = np.concatenate([known_in, tried_in])
    network.fit(rows[inside], labels[inside])
    attack = MembershipInferenceBlackBox(SklearnClassifier(network), attack_model_type="rf")
    attack.fit(rows[known_in], labels[known_in], rows[known_out], labels[known_out])
    tried = np.concatenate([tried_in, tried_out])
    found = attack.infer(rows[tried], labels[tried], probabilities=True)
    own = network.predict_proba(rows[tried])[np.arange(len(tried)), labels[tried]]
    return {
        "scores": np.asarray(found)[:, -1].ravel().tolist(),
        "probabilities": own.tolist(),
        "members": len(tried_in),
    }


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump({"one run": one_run, "membership": membership}[asked["what"]](asked), sys.stdout)
