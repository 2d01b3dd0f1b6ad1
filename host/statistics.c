#include "host/statistics.h"

#include <stdio.h>
#include <string.h>

#include "app/service/stats.h"
#include "base/assert.h"
#include "base/format.h"

enum { COLUMNS = 100, MODULE_COLUMNS = 14, VALUE_BYTES = 24 };

/* The row that is being printed. */
struct row {
    char module[COUNTER_PATH_BYTES];
    int column; /* 0: none has begun */
};

/* Prints a value in the row of its module, the part of the name before the first dot. */
static void print_value(struct row *row, const char *name, const char *value)
{
    char module[COUNTER_PATH_BYTES], text[STATS_LINE_BYTES_MAX];
    const int module_bytes = (int)strcspn(name, ".");
    format(module, sizeof module, "%.*s", module_bytes, name);
    const int bytes = (int)format(text, sizeof text, "%s%s%s", name[module_bytes] == '.' ? name + module_bytes + 1 : "",
                                  name[module_bytes] == '.' ? " " : "", value);
    ASSERT(row->column >= 0);
    if (row->column == 0 || strcmp(row->module, module) != 0) {
        row->column = printf("%s%-*s %s", row->column == 0 ? "" : "\n", MODULE_COLUMNS - 1, module, text);
        memcpy(row->module, module, sizeof module);
    } else if (row->column + 2 + bytes <= COLUMNS) {
        row->column += printf(", %s", text);
    } else {
        row->column = printf(",\n%*s%s", MODULE_COLUMNS, "", text);
    }
}

static void print_histograms(void)
{
    const char *name;
    struct histogram h;
    bool begun = false;
    for (size_t i = 0; stats_histogram(NULL, i, &name, &h); i++) {
        if (h.count == 0)
            continue;
        if (!begun)
            printf("\n%-30s %11s %11s %11s %11s %11s\n", "microseconds", "count", "average", "p50", "p99", "max");
        begun = true;
        printf("%-30s %11llu %11.2f %11.2f %11.2f %11.2f\n", name, (unsigned long long)h.count,
               (double)(h.sum / h.count) / 1e3, (double)histogram_quantile(&h, 5000) / 1e3,
               (double)histogram_quantile(&h, 9900) / 1e3, (double)h.max / 1e3);
    }
}

void statistics_print(void)
{
    struct row row = { .column = 0 };
    const char *name, *text;
    for (size_t i = 0; stats_fact(i, &name, &text); i++)
        print_value(&row, name, text);
    struct counter_group counter;
    for (size_t i = 0; stats_counter(NULL, i, &counter); i++) {
        char path[COUNTER_PATH_BYTES], value[VALUE_BYTES];
        if (*counter.values == 0)
            continue;
        format(path, sizeof path, "%s%s", counter.prefix, counter.counters->name);
        format(value, sizeof value, "%llu", (unsigned long long)*counter.values);
        print_value(&row, path, value);
    }
    printf("\n");
    print_histograms();
}
