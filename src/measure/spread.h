/* spread.h: the middle and the ends of a few measurements. */
#ifndef MEASURE_SPREAD_H
#define MEASURE_SPREAD_H

struct spread {
    double median; /* of an even number: the mean of the two in the middle */
    double min;
    double max;
};

/* n >= 1; sorts the samples. */
struct spread spread_of(double *sample, int n);

#endif
