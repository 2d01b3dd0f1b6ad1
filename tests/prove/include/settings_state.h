/* The settings' tables of the player, the service, the network, the loaders and the machine, in any state. */
#pragma once

#include "app/player/settings.h"
#include "app/service/settings.h"
#include "kernel/settings.h"
#include "net/settings.h"

static struct settings settings;
static uint8_t text[200];

static void prove_state_begin(void)
{
    service_settings_begin(&settings, "player", &player_settings_table, &machine_settings_table);
    prove_any(text, sizeof text);
}

static void prove_state_any(void)
{
    prove_any(&player_settings, sizeof player_settings);
    prove_any(&service_settings, sizeof service_settings);
    prove_any(&network_settings, sizeof network_settings);
    prove_any(&machine_settings, sizeof machine_settings);
    prove_any(settings.seen, sizeof settings.seen);
    player_settings.inputs.count = (uint32_t)prove_number(0, ENDPOINT_COUNT_MAX);
    player_settings.modulus_count = (uint32_t)prove_number(0, MATCHER_MODULUS_COUNT_MAX);
    machine_settings.blackbox_count = (uint32_t)prove_number(0, MACHINE_BLACKBOX_COUNT_MAX);
    machine_settings.virtio_mmio.count = (uint32_t)prove_number(0, MACHINE_VIRTIO_MMIO_COUNT_MAX);
}

/* Raises an alarm unless the state is one that prove_state_any makes. */
static void prove_state_holds(void)
{
    prove_holds(player_settings.inputs.count <= ENDPOINT_COUNT_MAX);
    prove_holds(player_settings.modulus_count <= MATCHER_MODULUS_COUNT_MAX);
    prove_holds(machine_settings.blackbox_count <= MACHINE_BLACKBOX_COUNT_MAX);
    prove_holds(machine_settings.virtio_mmio.count <= MACHINE_VIRTIO_MMIO_COUNT_MAX);
}

/* Returns any bytes that end where their buffer ends. */
static struct bytes prove_text(size_t bytes) { return (struct bytes){ text + sizeof text - bytes, bytes }; }
