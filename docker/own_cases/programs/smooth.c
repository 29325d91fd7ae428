/* A library of its own, so that the kernel names it and not the program. */
void smooth_cells(double *cells, int count);

void smooth_cells(double *cells, int count) {
    for (int i = 1; i + 1 < count; i++)
        cells[i] = (cells[i - 1] + cells[i + 1]) / 2;
}

/* The same for R's .C, which passes pointers. */
void smooth_r(double *cells, int *count);

void smooth_r(double *cells, int *count) {
    smooth_cells(cells, *count);
}
