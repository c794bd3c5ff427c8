"""The ground floor: arrays, threads, factorisations, validation. It knows nothing of the rest."""
