/* metrics_page.c: the page in Prometheus' text format 0.0.4: one HELP and TYPE for each family, cumulative buckets, label
 * values with '\', '"' and line ends escaped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/metrics_state.h"

static void write_number(struct string_buffer *out, double value)
{
    if (isnan(value))
        string_buffer_puts(out, "NaN");
    else if (isinf(value))
        string_buffer_puts(out, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) < 1e15)
        string_buffer_printf(out, "%.0f", value);
    else
        string_buffer_printf(out, "%.9g", value);
}

static void write_escaped(struct string_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            string_buffer_add(out, "\\", 1);
        if (*text == '\n')
            string_buffer_puts(out, "\\n");
        else
            string_buffer_add(out, text, 1);
    }
}

static void write_head(struct string_buffer *out, const char *prefix, const char *name, const char *type, const char *help)
{
    string_buffer_printf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, type);
}

/* The name of a series up to its labels' end. bound: of a bucket; NULL: none. */
static void write_series(struct string_buffer *out, const struct metrics_names *names, const struct metrics_row *row,
                         const char *suffix, const char *model, const char *bound)
{
    string_buffer_printf(out, "%s%s%s{", names->prefix, row->name, suffix);
    if (names->more_labels != NULL)
        string_buffer_printf(out, "%s,", names->more_labels);
    string_buffer_printf(out, "%s=\"", names->model_label);
    write_escaped(out, model);
    string_buffer_puts(out, "\"");
    if (row->label != NULL)
        string_buffer_printf(out, ",%s", row->label);
    if (bound != NULL)
        string_buffer_printf(out, ",le=\"%s\"", bound);
    string_buffer_puts(out, "} ");
}

static void write_histogram(struct string_buffer *out, const struct metrics_names *names, const struct metrics_row *row,
                            const struct model_metrics *mm)
{
    const struct histogram *h = &mm->histogram[row->id];
    int n_bound;
    const double *bound = histogram_bounds((enum histogram_id)row->id, &n_bound);
    uint64_t count = 0;
    for (int i = 0; i <= n_bound; i++) {
        char text[32] = "+Inf";
        count += h->n[i];
        if (i < n_bound)
            snprintf(text, sizeof text, "%.9g", bound[i]);
        write_series(out, names, row, "_bucket", mm->name, text);
        string_buffer_printf(out, "%llu\n", (unsigned long long)count);
    }
    write_series(out, names, row, "_sum", mm->name, NULL);
    write_number(out, h->sum);
    string_buffer_puts(out, "\n");
    write_series(out, names, row, "_count", mm->name, NULL);
    string_buffer_printf(out, "%llu\n", (unsigned long long)count);
}

static void write_models(struct string_buffer *out, const struct metrics_names *names, const struct metrics *m,
                         double (*value)[N_VALUES])
{
    const char *last = "";
    for (const struct metrics_row *row = names->row; row->name != NULL; row++) {
        if (strcmp(last, row->name) != 0)
            write_head(out, names->prefix, row->name, row->type, row->help);
        last = row->name;
        for (int i = 0; i < m->n_model; i++) {
            if (strcmp(row->type, "histogram") == 0) {
                write_histogram(out, names, row, m->model[i]);
                continue;
            }
            write_series(out, names, row, "", m->model[i]->name, NULL);
            write_number(out, value[i][row->id]);
            string_buffer_puts(out, "\n");
        }
    }
}

static void write_http(struct string_buffer *out, const struct metrics *m)
{
    write_head(out, "millrace_", "http_requests_total", "counter", "Replies by method, path and status.");
    for (int i = 0; i < HTTP_SLOTS; i++)
        if (m->http[i].path != NULL)
            string_buffer_printf(out, "millrace_http_requests_total{method=\"%s\",path=\"%s\",code=\"%d\"} %lld\n",
                                 m->http[i].method, m->http[i].path, m->http[i].code, (long long)m->http[i].n);
    if (m->n_http_other > 0)
        string_buffer_printf(out, "millrace_http_requests_total{method=\"other\",path=\"other\",code=\"\"} %lld\n",
                             (long long)m->n_http_other);
}

static void write_labelled(struct string_buffer *out, const char *series, const char *value, int64_t n)
{
    string_buffer_printf(out, "millrace_%s=\"%s\"} %lld\n", series, value, (long long)n);
}

static void write_batches(struct string_buffer *out, const struct metrics *m)
{
    static const char *const end_name[N_BATCH_LINE_ENDS] = {"completed", "failed", "cancelled", "expired"};
    const struct metrics_batches *b = &m->batches;
    const double since_s = (double)(metrics_now(m) - m->batches_us) * 1e-6;
    write_head(out, "millrace_", "batches", "gauge", "Batches that have not ended, by status.");
    write_labelled(out, "batches{status", "validating", b->n_validating);
    write_labelled(out, "batches{status", "in_progress", b->n_in_progress);
    write_labelled(out, "batches{status", "finalizing", b->n_finalizing);
    write_labelled(out, "batches{status", "cancelling", b->n_cancelling);
    write_head(out, "millrace_", "batch_lines_total", "counter", "Lines of batches that got a result.");
    for (int i = 0; i < N_BATCH_LINE_ENDS; i++)
        write_labelled(out, "batch_lines_total{result", end_name[i], m->n_batch_lines[i]);
    write_head(out, "millrace_", "batch_lines_pending", "gauge", "Lines without a result, of batches in progress.");
    string_buffer_printf(out, "millrace_batch_lines_pending %lld\n", (long long)b->n_pending);
    write_head(out, "millrace_", "batch_oldest_line_age_seconds", "gauge",
               "Time since the batch of the oldest pending line was made; 0: no line is pending.");
    string_buffer_puts(out, "millrace_batch_oldest_line_age_seconds ");
    write_number(out, b->n_pending > 0 ? b->oldest_s + since_s : 0);
    string_buffer_puts(out, "\n");
}

/* Of one engine process, by VALUE_... of the families below. */
static double engine_process_value(const struct metrics_processes *p, int i, int family)
{
    const double value[] = {(double)p->use[i].cpu_us * 1e-6,      (double)p->use[i].resident_bytes,
                            (double)p->use[i].swap_bytes,         (double)p->process[i].step_us * 1e-6,
                            (double)p->process[i].n_open,         (double)p->process[i].kv_bytes,
                            (double)p->process[i].kv_bytes_in_use};
    return value[family];
}

static void write_engine_processes(struct string_buffer *out, const struct metrics *m)
{
    static const struct {
        const char *name, *type, *help;
    } family[] = {
        {"engine_process_cpu_seconds_total", "counter", "CPU time of each engine process since it started, spinning included."},
        {"engine_process_resident_bytes", "gauge",
         "Resident memory of each engine process; the weights that they share count in each."},
        {"engine_process_swap_bytes", "gauge", "Memory of each engine process that is swapped out."},
        {"engine_process_step_seconds_total", "counter", "Time of each in the forward pass since it started."},
        {"engine_process_requests", "gauge", "Requests that each has."},
        {"engine_process_kv_bytes", "gauge", "Key/value memory of each."},
        {"engine_process_kv_in_use_bytes", "gauge", "What of it is in use."},
    };
    for (size_t f = 0; f < sizeof family / sizeof *family; f++) {
        write_head(out, "millrace_", family[f].name, family[f].type, family[f].help);
        for (int i = 0; i < m->n_model; i++) {
            const struct metrics_processes *p = &m->model[i]->processes;
            int n_standby = 0;
            for (int j = 0; j < p->n; j++) {
                const bool is_standby = p->process[j].index < 0;
                string_buffer_printf(out, "millrace_%s{model=\"", family[f].name);
                write_escaped(out, m->model[i]->name);
                string_buffer_printf(out, "\",role=\"%s\",process=\"%d\"} ", is_standby ? "standby" : "active",
                                     is_standby ? n_standby++ : (int)p->process[j].index);
                write_number(out, engine_process_value(p, j, (int)f));
                string_buffer_puts(out, "\n");
            }
        }
    }
}

/* Families without labels, of the whole process. */
static void write_process(struct string_buffer *out, const struct metrics *m)
{
    const struct process_stats *p = &m->process;
    const struct {
        const char *name, *type, *help;
        double value;
    } row[] = {
        {"http_connections", "gauge", "Open connections.", m->n_connections},
        {"http_received_bytes_total", "counter", "Bytes of request bodies.", (double)m->bytes_in},
        {"http_sent_bytes_total", "counter", "Bytes of reply bodies.", (double)m->bytes_out},
        {"trace_spans_sent_total", "counter", "Spans that the collector took.", (double)m->n_spans},
        {"trace_requests_dropped_total", "counter", "Requests whose spans it did not take.", (double)m->n_spans_dropped},
        {"oom_kills_total", "counter", "Processes of the control group that the kernel killed for memory since the start.",
         p->oom_kills < 0 ? 0 : (double)(p->oom_kills - (m->at_start.oom_kills > 0 ? m->at_start.oom_kills : 0))},
        {"cgroup_memory_bytes", "gauge", "Memory of the control group; NaN: it has none.",
         p->group_bytes < 0 ? NAN : (double)p->group_bytes},
        {"cgroup_memory_limit_bytes", "gauge", "Its limit; NaN: none.",
         p->group_limit_bytes < 0 ? NAN : (double)p->group_limit_bytes},
        {"process_swap_bytes", "gauge", "Memory of the process that is swapped out.", (double)p->swap_bytes},
        {"page_faults_minor_total", "counter", "Page faults without a read.", (double)p->minor_faults},
        {"page_faults_major_total", "counter", "Page faults that read from disk.", (double)p->major_faults},
        {"compute_threads", "gauge", "Threads that compute.", m->options.threads},
        {"limit_int8_operations_per_second", "gauge", "Measured peak; 0: not measured.",
         limits_gops(&m->limits, PEAK_INT8) * 1e9},
        {"limit_float32_operations_per_second", "gauge", "Measured peak; 0: not measured.", m->limits.gops[PEAK_F32] * 1e9},
        {"limit_read_bytes_per_second", "gauge", "Measured read rate of memory; 0: not measured.", m->limits.read_gb_s * 1e9},
        {"latency_target_seconds", "gauge", "Target of the 99th percentile; 0: none.", m->options.latency_target_ms * 1e-3},
        {"itl_target_seconds", "gauge", "Target of the time between tokens; 0: none.", m->options.itl_target_ms * 1e-3},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_head(out, "millrace_", row[i].name, row[i].type, row[i].help);
        string_buffer_printf(out, "millrace_%s ", row[i].name);
        write_number(out, row[i].value);
        string_buffer_puts(out, "\n");
    }
    /* As Prometheus' own clients name them. */
    string_buffer_printf(out,
                         "# HELP process_resident_memory_bytes Resident memory.\n# TYPE process_resident_memory_bytes gauge\n"
                         "process_resident_memory_bytes %lld\n"
                         "# HELP process_cpu_seconds_total CPU time of all threads, spinning included.\n"
                         "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.3f\n"
                         "# HELP process_open_fds Open files.\n# TYPE process_open_fds gauge\nprocess_open_fds %lld\n"
                         "# HELP process_start_time_seconds When the process started.\n"
                         "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n"
                         "# HELP millrace_build_info The version, in a label.\n# TYPE millrace_build_info gauge\n"
                         "millrace_build_info{version=\"" MILLRACE_VERSION "\"} 1\n",
                         (long long)p->resident_bytes, (double)p->cpu_us * 1e-6, (long long)p->open_files, p->start_s);
}

enum mr_status metrics_write(struct metrics *m, const char *name, struct string_buffer *out, struct mr_error *err)
{
    const struct metrics_names *names = metrics_name_table;
    while (name != NULL && names->name != NULL && strcmp(names->name, name) != 0)
        names++;
    if (names->name == NULL)
        return mr_fail(err, MR_NOT_FOUND, "names is none of millrace, vllm, llamacpp");
    double(*value)[N_VALUES] = calloc(METRICS_MODELS_MAX, sizeof *value);
    if (value == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for metrics");
    metrics_tick(m);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->n_model; i++)
        model_values(m->model[i], value[i]);
    write_models(out, names, m, value);
    if (names->has_process) {
        write_http(out, m);
        write_batches(out, m);
        write_engine_processes(out, m);
        write_process(out, m);
    }
    pthread_mutex_unlock(&m->lock);
    free(value);
    return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for metrics") : MR_OK;
}
