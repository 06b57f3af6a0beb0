/* scatter_plot.h: a few labelled points with intervals, as SVG. */
#ifndef MEASURE_SCATTER_PLOT_H
#define MEASURE_SCATTER_PLOT_H

#include "base/string_buffer.h"

enum {
    SCATTER_POINTS_MAX = 64
};

struct scatter_point {
    double x, y, low, high; /* low <= y <= high */
    const char *label;      /* any text */
};

struct scatter_plot {
    const char *title, *x_label, *y_label;
    const struct scatter_point *point;
    int n; /* 1 or more */
};

void scatter_plot_svg(const struct scatter_plot *plot, struct string_buffer *out);

#endif
