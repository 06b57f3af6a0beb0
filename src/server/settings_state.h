/* settings_state.h: what stands behind struct settings. */
#ifndef SERVER_SETTINGS_STATE_H
#define SERVER_SETTINGS_STATE_H

#include "base/arena.h"
#include "server/settings.h"

enum {
    SETTINGS_MAX = 96 /* rows of the table */
};

struct settings {
    struct server_settings values, defaults;
    enum settings_source source[SETTINGS_MAX];
    struct arena text;
};

int settings_count(void); /* rows of the table */
size_t setting_field_size(const struct setting *row);

#endif
