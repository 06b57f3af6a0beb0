/* scatter_plot.c: axes with a handful of round ticks, then the points. */
#include "measure/scatter_plot.h"

#include <math.h>

enum {
    WIDTH = 720,
    HEIGHT = 420,
    LEFT = 80,
    RIGHT = 24,
    TOP = 40,
    BOTTOM = 60,
    N_TICKS = 5 /* about */
};

struct axis {
    double low, high, step;
};

/* Ticks at multiples of 1, 2 or 5 times a power of ten, a little room around the ends. */
static struct axis axis_of(double low, double high)
{
    const double room = high > low ? 0.08 * (high - low) : fabs(high) * 0.1 + 1e-9;
    struct axis a = {low - room, high + room, 0};
    const double rough = (a.high - a.low) / N_TICKS, power = pow(10, floor(log10(rough))), part = rough / power;
    a.step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
    return a;
}

static double at_x(const struct axis *a, double x) { return LEFT + (x - a->low) / (a->high - a->low) * (WIDTH - LEFT - RIGHT); }

static double at_y(const struct axis *a, double y)
{
    return HEIGHT - BOTTOM - (y - a->low) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void escaped(struct string_buffer *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            string_buffer_puts(out, "&lt;");
        else if (*s == '&')
            string_buffer_puts(out, "&amp;");
        else if ((unsigned char)*s >= ' ')
            string_buffer_add(out, s, 1);
    }
}

static void text(struct string_buffer *out, double x, double y, const char *more, const char *s)
{
    string_buffer_printf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, more);
    escaped(out, s);
    string_buffer_puts(out, "</text>\n");
}

static void line(struct string_buffer *out, double x, double y, double x2, double y2, const char *colour)
{
    string_buffer_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x, y, x2, y2, colour);
}

static void axes(struct string_buffer *out, const struct axis *x, const struct axis *y)
{
    for (double t = ceil(x->low / x->step) * x->step; t <= x->high; t += x->step) {
        line(out, at_x(x, t), TOP, at_x(x, t), HEIGHT - BOTTOM, "#ddd");
        string_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n", at_x(x, t),
                             HEIGHT - BOTTOM + 18, fabs(t) < x->step / 2 ? 0 : t);
    }
    for (double t = ceil(y->low / y->step) * y->step; t <= y->high; t += y->step) {
        line(out, LEFT, at_y(y, t), WIDTH - RIGHT, at_y(y, t), "#ddd");
        string_buffer_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", LEFT - 8, at_y(y, t) + 4,
                             fabs(t) < y->step / 2 ? 0 : t);
    }
    line(out, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#333");
    line(out, LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#333");
}

static void points(struct string_buffer *out, const struct scatter_plot *p, const struct axis *x, const struct axis *y)
{
    for (int i = 0; i < p->n; i++) {
        const struct scatter_point *q = &p->point[i];
        const double px = at_x(x, q->x), py = at_y(y, q->y);
        const int is_right = px > (WIDTH + LEFT) / 2.0;
        line(out, px, at_y(y, q->low), px, at_y(y, q->high), "#27c");
        string_buffer_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#27c\"/>\n", px, py);
        text(out, px + (is_right ? -8 : 8), py - 6, is_right ? "text-anchor=\"end\"" : "", q->label);
    }
}

void scatter_plot_svg(const struct scatter_plot *p, struct string_buffer *out)
{
    double x0 = p->point[0].x, x1 = x0, y0 = p->point[0].low, y1 = p->point[0].high;
    for (int i = 1; i < p->n; i++) {
        x0 = fmin(x0, p->point[i].x);
        x1 = fmax(x1, p->point[i].x);
        y0 = fmin(y0, p->point[i].low);
        y1 = fmax(y1, p->point[i].high);
    }
    const struct axis x = axis_of(x0, x1), y = axis_of(y0, y1);
    string_buffer_printf(out,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                         "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
                         "fill=\"white\"/>\n",
                         WIDTH, HEIGHT, WIDTH, HEIGHT);
    axes(out, &x, &y);
    text(out, WIDTH / 2.0, 22, "text-anchor=\"middle\" font-size=\"15\"", p->title);
    text(out, (WIDTH + LEFT) / 2.0, HEIGHT - 16, "text-anchor=\"middle\"", p->x_label);
    string_buffer_printf(out, "<g transform=\"translate(18 %d) rotate(-90)\">", HEIGHT / 2);
    text(out, 0, 0, "text-anchor=\"middle\"", p->y_label);
    string_buffer_puts(out, "</g>\n");
    points(out, p, &x, &y);
    string_buffer_puts(out, "</svg>\n");
}
