"sha256-5Y/t95TyftcB21vYlKLj6yeedhil1tTCas1fBCDMZ2s="
