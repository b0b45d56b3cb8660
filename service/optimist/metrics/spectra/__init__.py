"""Functions of a spectrum: traces, exactly and as rows keep coming, and de-biased by the leave-one-out map."""
