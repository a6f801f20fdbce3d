"""Result files made by hand: curves whose gaps fall at a known rate."""

import numpy as np
import pandas as pd

ELASTIC = "ERM[lambda1=0.001,lambda2=0.01,loss=smoothed_hinge]"
MATRIX = "ERM[lam=0.01,loss=smoothed_hinge]"
STATED = "DSPDC[m=1,q=50,sampling=subset,Lambda=heuristic]"
EXACT = "DSPDC[m=1,q=50,Lambda=partition]"


def factorized(n=5000, p=100, d=20, materialize=False):
    return f"Factorized[d={d},materialize={materialize},n={n},p={p},random_state=0]"


def curve(solver, decade, dataset=None, objective=ELASTIC, rep=0, to=1e-8, eigs=0.0, points=60,
          **more):
    """A run whose gap falls by ten every `decade` seconds."""
    gaps = np.geomspace(1.0, to, points)
    seconds = -np.log10(gaps) * decade + 1e-3
    steps = np.arange(points, dtype=float)
    return pd.DataFrame(dict(
        dataset_name=dataset or factorized(), objective_name=objective, solver_name=solver,
        idx_rep=rep, time=seconds, stop_val=np.arange(points), objective_value=1.0 + gaps,
        objective_dual=1.0 - 0.1 * gaps, objective_relative_gap=gaps, objective_own_gap=2 * gaps,
        objective_passes=10 * steps, objective_iterations=100 * steps,
        objective_coordinate_updates=1000 * steps, objective_eigendecompositions=eigs * steps,
        objective_predicted_rate=np.nan, **more,
    ))


def runs(*curves):
    frame = pd.concat(curves, ignore_index=True)
    frame.attrs["notes"] = []
    return frame


def seeds(solver, decades, **options):
    return [curve(solver, decade, rep=k, **options) for k, decade in enumerate(decades)]
