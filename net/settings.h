/* The network's settings, as the transport's configuration. docs/settings.md lists the keys. */
#pragma once

#include "base/settings.h"
#include "net/transport.h"

/* `device` and `secret` are the caller's to fill in. */
extern struct transport_config network_settings;
extern const struct settings_table network_settings_table;
