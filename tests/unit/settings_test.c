/* base/settings.c and base/text.c, with the tables of the player, the service, the network and the machine. */
#include "app/player/settings.h"
#include "app/service/settings.h"
#include "kernel/settings.h"
#include "net/settings.h"
#include "tests/lib/test.h"

#define GAME "feed=10.0.2.2:10001 submit=10.0.2.2:10002 user=swift passwd=secret n=256 m=20220217214410,823 "

static struct settings settings;

static void begin(void)
{
    service_settings_begin(&settings, "player", &player_settings_table, &machine_settings_table);
}

/* Parses the text in a buffer of exactly its size: ASan sees a read past its end. */
static bool parse(const char *text)
{
    size_t bytes = strlen(text);
    char *exact = test_malloc(bytes ? bytes : 1);
    memcpy(exact, text, bytes);
    begin();
    settings_add(&settings, "command line", exact, bytes);
    settings_check(&settings);
    bool ok = settings_finish(&settings);
    test_free(exact);
    return ok;
}

static void assert_refused(const char *text, const char *message)
{
    assert_false(parse(text));
    assert_string_equal(settings.error, message);
}

/* Expects a message about a word of the text. */
static void assert_word_refused(const char *text, const char *message)
{
    static const char head[] = "settings, command line: ";
    assert_false(parse(text));
    assert_memory_equal(settings.error, head, sizeof head - 1);
    assert_string_equal(settings.error + sizeof head - 1, message);
}

TEST(a_game_is_read_whole)
{
    assert_true(parse(GAME));
    assert_int_equal(player_settings.inputs.count, 1);
    assert_int_equal(player_settings.inputs.at[0].address, 0x0a000202);
    assert_int_equal(player_settings.inputs.at[0].port, 10001);
    assert_int_equal(player_settings.submit.address, 0x0a000202);
    assert_int_equal(player_settings.submit.port, 10002);
    assert_string_equal(player_settings.user, "swift");
    assert_string_equal(player_settings.passwd, "secret");
    assert_int_equal(player_settings.n_digits_max, 256);
    assert_int_equal(player_settings.modulus_count, 2);
    assert_string_equal(player_settings.moduli[0], "20220217214410");
    assert_string_equal(player_settings.moduli[1], "823");
    assert_int_equal(player_settings.simd, MATCHER_SIMD_AUTO);
    assert_true(player_settings.early);
    assert_int_equal(network_settings.address, 0);
    assert_int_equal(service_settings.net_timeout_ns, 60000000000);
    assert_int_equal(service_settings.key_bytes, 0);
    assert_int_equal(service_settings.control_port, 18247);
    assert_int_equal(machine_settings.test_methods, 15);
}

TEST(every_other_key_is_read)
{
    assert_true(parse(GAME "feeds=3 simd=avx2 early=off early.risk=2.5e-3 ip=10.0.2.15/24 gw=10.0.2.1 "
                           "gwmac=52:55:0A:00:02:02 mtu=1460 rto.min=5ms ecn=off net.timeout=0 server.timeout=0.25 "
                           "submit.timeout=8 feed.timeout=7s deadline=250us idle.timeout=90 breaker=17 "
                           "breaker.window=2 breaker.linger=0 key=longenough control.port=99 http.port=8080 wait=sleep "
                           "log=10.0.2.2:514 watchdog=2.5 tsc.khz=2499998 blackbox=0x90000,32768,0x1234567000,131072 "
                           "test.trap=divide test.after=1.5 test.resets=8042,acpi nic=52:54:00:12:34:5F "
                           "lease=43200@10.0.2.2 dhcp.send=61:01525400123aBC,12:766d acpi_rsdp=0x3fb7e014"));
    assert_int_equal(network_settings.dhcp_identity.count, 13);
    assert_memory_equal(network_settings.dhcp_identity.data, "\x3d\x07\x01\x52\x54\x00\x12\x3a\xbc\x0c\x02vm", 13);
    assert_memory_equal(network_settings.nic_mac, "\x52\x54\x00\x12\x34\x5f", NETDEV_MAC_BYTES);
    assert_int_equal(player_settings.inputs.count, 3);
    assert_int_equal(player_settings.inputs.at[2].port, 10001);
    assert_int_equal(player_settings.simd, MATCHER_SIMD_AVX2);
    assert_false(player_settings.early);
    assert_int_equal(player_settings.early_risk, 2748779069); /* 2.5e-3 * 2^40 */
    assert_int_equal(network_settings.address, 0x0a00020f);
    assert_int_equal(network_settings.mask, 0xffffff00);
    assert_int_equal(network_settings.gateway, 0x0a000201);
    assert_memory_equal(network_settings.gateway_mac, "\x52\x55\x0a\x00\x02\x02", 6);
    assert_int_equal(network_settings.lease_seconds, 43200);
    assert_int_equal(network_settings.lease_server, 0x0a000202);
    assert_int_equal(network_settings.mtu_bytes, 1460);
    assert_int_equal(network_settings.rto_min_ns, 5000000);
    assert_false(network_settings.ecn);
    assert_int_equal(service_settings.net_timeout_ns, 0);
    assert_int_equal(player_settings.server_timeout_ns, 250000000);
    assert_int_equal(player_settings.submit_timeout_ns, 8000000000);
    assert_int_equal(player_settings.input_timeout_ns, 7000000000);
    assert_int_equal(service_settings.deadline_ns, 250000);
    assert_int_equal(service_settings.idle_timeout_ns, 90000000000);
    assert_int_equal(player_settings.breaker_count, 17);
    assert_int_equal(player_settings.breaker_window_ns, 2000000000);
    assert_int_equal(player_settings.breaker_linger_ns, 0);
    assert_int_equal(service_settings.key_bytes, 10);
    assert_memory_equal(service_settings.key, "longenough", 10);
    assert_int_equal(service_settings.control_port, 99);
    assert_int_equal(service_settings.http_port, 8080);
    assert_int_equal(service_settings.wait, SERVICE_WAIT_SLEEP);
    assert_int_equal(service_settings.log.port, 514);
    assert_int_equal(machine_settings.tsc_khz, 2499998);
    assert_int_equal(machine_settings.acpi_rsdp, 0x3fb7e014);
    assert_int_equal(machine_settings.watchdog_ns, 2500000000);
    assert_int_equal(machine_settings.blackbox_count, 2);
    assert_int_equal(machine_settings.blackbox[0].address, 0x90000);
    assert_int_equal(machine_settings.blackbox[0].bytes, 32768);
    assert_int_equal(machine_settings.blackbox[1].address, 0x1234567000);
    assert_string_equal(machine_settings.test_trap, "divide");
    assert_int_equal(machine_settings.test_after_ns, 1500000000);
    assert_int_equal(machine_settings.test_methods, 1 << 2 | 1 << 0);
    assert_true(parse(GAME "test.resets=none"));
    assert_int_equal(machine_settings.test_methods, 0);
}

TEST(the_watchdog_is_on_unless_it_is_switched_off)
{
    assert_true(parse(GAME));
    assert_int_equal(machine_settings.watchdog_ns, 30000000000);
    assert_true(parse(GAME "watchdog=off"));
    assert_int_equal(machine_settings.watchdog_ns, 0);
    assert_true(parse(GAME "watchdog=0"));
    assert_int_equal(machine_settings.watchdog_ns, 0);
}

TEST(cpus_are_1_to_64_or_all)
{
    assert_true(parse(GAME));
    assert_int_equal(service_settings.cpus, 1);
    assert_true(parse(GAME "cpus=64"));
    assert_int_equal(service_settings.cpus, 64);
    assert_true(parse(GAME "cpus=all"));
    assert_int_equal(service_settings.cpus, SERVICE_CPUS_ALL);
    static const char *const wrong[] = { "0", "65", "", "-1", "2.5", "ALL" };
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        char text[400];
        snprintf(text, sizeof text, GAME "cpus=%s", wrong[i]);
        assert_false(parse(text));
        assert_non_null(strstr(settings.error, "1 to 64, or `all`"));
    }
}

TEST(a_black_box_is_whole_pages)
{
    static const char *const wrong[] = {
        "",
        "0x90000",
        "0x90000,",
        "0x90000,32768,",
        "0x90001,4096",
        "0x90000,4095",
        "0,4096",
        "589824,4096",
        "0x,4096",
        "0x9g000,4096",
        "1x90000,4096",
        "0y90000,4096",
        "0x90000,0",
        "0x90000,2097152",
        "0x10000000000000,4096",
        "0x1000,4096,0x2000,4096,0x3000,4096,0x4000,4096,0x5000,4096",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, GAME "blackbox=%s", wrong[i]);
        assert_false(parse(text));
        assert_non_null(strstr(settings.error, "expected 0xADDRESS,BYTES"));
    }
    assert_true(parse(GAME "blackbox=0x1000,4096,0x2000,4096,0x3000,4096,0xffffffffff000,1048576"));
    assert_int_equal(machine_settings.blackbox_count, 4);
}

TEST(a_host_route_mask_is_read)
{
    assert_true(parse(GAME "ip=10.128.0.7/32 gw=10.128.0.1"));
    assert_int_equal(network_settings.mask, 0xffffffff);
    assert_true(parse(GAME "ip=10.128.0.7/1"));
    assert_int_equal(network_settings.mask, 0x80000000);
    assert_true(parse(GAME "ip=dhcp"));
    assert_int_equal(network_settings.address, 0);
}

TEST(several_feeds_are_spread_over_the_connections)
{
    assert_true(parse("feed=1.2.3.4:5,6.7.8.9:10 feeds=5 submit=1.2.3.4:6 user=u passwd= n=1 m=3"));
    assert_int_equal(player_settings.inputs.count, 5);
    assert_int_equal(player_settings.inputs.at[0].port, 5);
    assert_int_equal(player_settings.inputs.at[3].port, 10);
    assert_int_equal(player_settings.inputs.at[4].port, 5);
    assert_string_equal(player_settings.passwd, "");
    assert_word_refused(GAME "feeds=9", "feeds=: \"9\": expected the number of input connections, 1 to 8");
    assert_refused("feed=1.2.3.4:5,1.2.3.5:6 feeds=1 submit=1.2.3.4:6 user=u passwd=p n=1 m=3",
                   "settings: feeds= is less than the number of addresses in feed=");
}

TEST(comments_white_space_and_several_sources_are_taken)
{
    static const char file[] = "# the game\n\tfeed=10.0.2.2:10001\r\n  submit=10.0.2.2:10002 # where answers go\n"
                               "#user=nobody\nuser=a#b\n\npasswd=p#\nn=6";
    begin();
    settings_add(&settings, "command line", "m=823,108", 9);
    settings_add(&settings, "game.conf", file, sizeof file - 1);
    assert_true(settings_finish(&settings));
    assert_string_equal(player_settings.user, "a#b");
    assert_string_equal(player_settings.passwd, "p#");
}

TEST(the_text_ends_at_a_nul)
{
    static const char text[] = GAME "\0nonsense";
    begin();
    settings_add(&settings, "x", text, sizeof text);
    assert_true(settings_finish(&settings));
}

TEST(words_of_boot_loaders_are_skipped)
{
    assert_true(
        parse("/boot/peregrine.elf " GAME "BOOT_IMAGE=/boot/peregrine console=ttyS0 reboot=k panic=1 pci=off nomodules "
              "8250.nr_uarts=0 i8042.noaux i8042.nomux i8042.dumbkbd noacpi i8042.direct=1 root=/dev/vda rw quiet "
              "virtio_mmio.device=4K@0xd0000000:5 virtio_mmio.device=512@0xfeb00e00:12"));
    assert_int_equal(machine_settings.virtio_mmio.count, 2);
    assert_string_equal(machine_settings.virtio_mmio.words[0], "4K@0xd0000000:5");
    assert_string_equal(machine_settings.virtio_mmio.words[1], "512@0xfeb00e00:12");
    assert_true(parse("(hd0,gpt1)/boot/peregrine.elf " GAME));
    assert_word_refused(GAME "/boot/peregrine.elf", "the word after m= (19 bytes, not shown): "
                                                    "not a key=value word; values have no blanks");
}

TEST(an_unknown_key_is_named)
{
    assert_word_refused(GAME "fed=1", "\"fed\": there is no such key in the program player");
    assert_word_refused(GAME "N=5", "\"N\": there is no such key in the program player");
    assert_word_refused(GAME "early", "\"early\": this key needs a value: key=value");
    assert_word_refused(GAME "=x", "the word after m= (2 bytes, not shown): "
                                   "there is no such key in the program player");
    assert_word_refused(GAME "\x01\xff", "the word after m= (2 bytes, not shown): "
                                         "not a key=value word; values have no blanks");
}

TEST(a_capture_is_bounded)
{
    assert_true(parse(GAME "capture=128 http.port=80 capture.http=on"));
    assert_int_equal(service_settings.capture_bytes, 128);
    assert_true(service_settings.capture_frames == 1024 && service_settings.capture_http);
    assert_true(parse(GAME "capture=1514,10000"));
    assert_int_equal(service_settings.capture_frames, 10000);
    assert_true(parse(GAME "capture=1,65536"));
    assert_int_equal(service_settings.capture_frames, 65536);
    assert_true(parse(GAME));
    assert_int_equal(service_settings.capture_bytes, 0);
#define EXPECTED ": expected BYTES or BYTES,FRAMES: 1 to 1514 bytes of each of 16 to 65536 frames"
    assert_word_refused(GAME "capture=0", "capture=: \"0\"" EXPECTED);
    assert_word_refused(GAME "capture=1515,16", "capture=: \"1515\"" EXPECTED);
    assert_word_refused(GAME "capture=on", "capture=: \"on\"" EXPECTED);
    assert_word_refused(GAME "capture=64,15", "capture=: \"15\"" EXPECTED);
    assert_word_refused(GAME "capture=64,65537", "capture=: \"65537\"" EXPECTED);
    assert_word_refused(GAME "capture=64,16,1", "capture=: \"64,16,1\"" EXPECTED);
    assert_word_refused(GAME "capture=1514,16384", "capture=: \"1514,16384\": a capture takes 16 MiB "
                                                   "of memory at most: BYTES and 40 for each frame");
    assert_refused(GAME "capture=64 capture.http=on",
                   "settings: capture.http=on goes with http.port=: the status page serves it");
    assert_refused(GAME "http.port=80 capture.http=on",
                   "settings: capture.http=on goes with capture=: else there is nothing to serve");
}

TEST(implausible_times_are_refused)
{
    assert_refused(GAME "idle.timeout=9", "settings: idle.timeout= goes with key=: without it nobody can ask");
    assert_word_refused(GAME "watchdog=0.5", "watchdog=: \"0.5\": expected a time, 1s to 3600s; 0 or off: never");
    assert_word_refused(GAME "breaker.window=0", "breaker.window=: \"0\": expected a time of at least 1ms");
}

TEST(a_time_without_a_minimum_says_its_maximum)
{
    static const struct setting row = { "wait", SETTING_TIME, .max = NS_PER_S };
    static const struct setting zero = { "wait", SETTING_TIME, .max = 250 * NS_PER_MS, .zero = "never" };
    char out[SETTINGS_VALUE_BYTES_MAX];
    assert_string_equal(settings_describe(&row, out), "a time, 0s to 1s");
    assert_string_equal(settings_describe(&zero, out), "a time, 0s to 250ms; 0 or off: never");
}

TEST(a_repeated_key_is_named) { assert_word_refused(GAME "n=256", "\"n\": given twice"); }

TEST(a_missing_key_is_named)
{
    assert_refused("", "settings: feed= is missing; required: feed, submit, user, passwd, n and m");
    assert_refused("feed=10.0.2.2:1 submit=10.0.2.2:1 user=a passwd=b n=1",
                   "settings: m= is missing; required: feed, submit, user, passwd, n and m");
}

TEST(a_malformed_constant_is_quoted)
{
    assert_word_refused("m=823,1o8", "m=: \"1o8\": expected decimal numbers with commas between them");
    assert_word_refused("m=823,,108", "m=: \"823,,108\": an empty number in the list");
    assert_word_refused("m=", "m=: \"\": an empty number in the list");
    assert_word_refused("m=823,", "m=: \"823,\": an empty number in the list");
    assert_word_refused("m=0", "m=: \"0\": a modulus is at least 1 and has no leading zero");
    assert_word_refused("m=-3", "m=: \"-3\": expected decimal numbers with commas between them");
    assert_word_refused("m=1,2,3,4,5,6,7,8,9", "m=: \"1,2,3,4,5,6,7,8,9\": at most 8 moduli");
    /* 2^512 - 1 is the largest, 2^512 is refused, and so is anything longer. */
    assert_true(
        parse("feed=1.1.1.1:1 submit=1.1.1.1:1 user=u passwd=p n=1 m=1340780792994259709957402499820584612747936582059"
              "2393377723561443721764030073546976801874298166903427690031858186486050853753882811946569946433649006"
              "084095"));
    assert_word_refused(
        "m=13407807929942597099574024998205846127479365820592393377723561443721764030073546976801874298166903427690"
        "031858186486050853753882811946569946433649006084096",
        "m=: \"13407807929942597099574024998205846127479365820592393377723561443721764030"
        "073546...\": a modulus has at most 512 bits");
}

TEST(malformed_values_are_refused)
{
    /* Words with a blank between them. */
    char words[] =
        "n=0 n=1025 n= n=6x n=+6 n=99999999999999999999999999 feed= feed=10.0.2.2 feed=10.0.2.2: "
        "feed=10.0.2.2:0 feed=10.0.2.2:65536 feed=10.0.2:1 feed=10.0.2.2.2:1 feed=10.0.2.256:1 feed=server:1 "
        "feed=0.0.0.0:1 feed=224.0.0.1:1 feed=255.255.255.255:1 feed=10.0.2.2:1:1 feed=10.0.2.2:1, "
        "feed=10..2.2:1 feed=0010.0.2.2:1 feed=010.0.2.2:1 "
        "feed=1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1 "
        "submit=:1 submit=localhost:80 user= user=123456789012345678901234567890123456789012345678 "
        "passwd=123456789012345678901234567890123456789012345678 simd=sse simd= early=yes early.risk=0 "
        "early.risk=1 early.risk=1e9 early.risk=e-9 early.risk=1e- early.risk=1e-99 early.risk=1e-13 "
        "early.risk=0.12345678 early.risk=. ip=10.0.2.15 ip=10.0.2.15/0 ip=10.0.2.15/33 ip=10.0.2.15/24/1 "
        "ip=127 ip=10.0.2.0/24 ip=10.0.2.255/24 gw=10.0.2 gw= gwmac=52:55:0a:00:02 gwmac=52:55:0a:00:02:02:03 "
        "gwmac=00:00:00:00:00:00 gwmac=01:00:5e:00:00:01 gwmac=5255:0a:00:02:02: nic= nic=eth0 "
        "nic=52:54:00:12:34 nic=52:54:00:12:34:56:78 nic=52-54-00-12-34-56 nic=525400123456 "
        "nic=52:54:00:12:34:5g nic=00:00:00:00:00:00 nic=ff:ff:ff:ff:ff:ff lease= lease=43200 lease=@10.0.2.2 "
        "lease=43200@ lease=43200@10.0.2 lease=43200@10.0.2.2@ lease=43200@224.0.0.1 lease=43200@0.0.0.0 "
        "lease=12h@10.0.2.2 lease=-1@10.0.2.2 lease=4294967296@10.0.2.2 lease=0@10.0.2.2 dhcp.send= "
        "dhcp.send=61 dhcp.send=61: dhcp.send=61:0 dhcp.send=61:0g dhcp.send=0:00 dhcp.send=255:00 "
        "dhcp.send=53:03 dhcp.send=61:00, dhcp.send=61:00,12 mtu=575 mtu=1501 rto.min=0 rto.min=61 "
        "net.timeout=-1 net.timeout= net.timeout=1.2.3 net.timeout=1h net.timeout=ms net.timeout=1. "
        "net.timeout=1000000001 deadline=1.0000000001 key= key=1234567 key=0x00112233445566 "
        "key=0x001122334455667 key=0x0011223344556677889 key=0x00112233445566zz "
        "key=12345678901234567890123456789012345678901234567890123456789012345 control.port=0 "
        "control.port=65536 http.port= http.port=65536 http.port=-1 wait= wait=poll log=10.0.2.2 test.trap= "
        "test.trap=12345678901234567890123456789012 test.resets= test.resets=acpi, acpi_rsdp=0 "
        "acpi_rsdp=3fb7e014 acpi_rsdp=0x3fb7e01g test.resets=none,acpi test.resets=ACPI rto.min=off rto.min=0.5ms ";
    for (char *rest, *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        settings.error[0] = '\0';
        assert_false(parse(word));
        /* The message names this word, not a missing one. */
        char expected[SETTINGS_ERROR_BYTES_MAX];
        snprintf(expected, sizeof expected, "settings, command line: %.*s=", (int)strcspn(word, "="), word);
        if (strncmp(settings.error, expected, strlen(expected)))
            fail_msg("%s: %s", word, settings.error);
    }
}

TEST(a_secret_is_never_repeated)
{
    assert_word_refused("key=hunter2", "key= (7 bytes, not shown): "
                                       "expected 8 to 64 bytes, as text or as 0x and hexadecimal digits");
    /* A password with a blank, a key alone, one before an '='. The word of another line is no part of a secret. */
    static const char *const words[] = { "passwd=correct hunter2", "passwd=correct hunter2=x", "hunter2hunter2",
                                         "0x68756e74657232=",      "n=5 0x68756e74657232",     "key hunter2=hunter2" };
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        begin();
        settings_add(&settings, "file", words[i], strlen(words[i]));
        assert_true(settings.error[0] != '\0');
        assert_null(strstr(settings.error, "hunter"));
        assert_null(strstr(settings.error, "6875"));
    }
    assert_word_refused("passwd=correct\nfed=1", "\"fed\": there is no such key in the program player");
}

TEST(a_key_in_hexadecimal_is_decoded)
{
    assert_true(parse(GAME "key=0x0123456789abcDeF"));
    assert_int_equal(service_settings.key_bytes, 8);
    assert_memory_equal(service_settings.key, "\x01\x23\x45\x67\x89\xab\xcd\xef", 8);
    assert_true(parse(GAME "key=0123456789012345678901234567890123456789012345678901234567890123"));
    assert_int_equal(service_settings.key_bytes, 64);
}

TEST(network_words_that_need_each_other_are_checked)
{
    assert_refused(GAME "gw=10.0.2.2", "settings: gw= goes with ip=ADDRESS/LENGTH, not with DHCP");
    assert_refused(GAME "ip=10.0.2.15/24 gw=10.0.2.15",
                   "settings: gw= is the address of ip=: this machine is not its own gateway");
    assert_true(parse(GAME "ip=10.0.2.14/31 gw=10.0.2.15"));
    assert_refused(GAME "lease=43200@10.0.2.2", "settings: lease= goes with ip=ADDRESS/LENGTH");
    assert_refused(GAME "ip=dhcp lease=43200@10.0.2.2", "settings: lease= goes with ip=ADDRESS/LENGTH");
    assert_refused(GAME "ip=10.0.2.15/24 dhcp.send=61:00", "settings: dhcp.send= goes with ip=dhcp or lease=");
    assert_word_refused(GAME "dhcp.send=61:00,50:0a000001",
                        "dhcp.send=: \"50:0a000001\": the client writes this option itself");
    assert_word_refused(GAME "ip=10.0.2.15/24 lease=0@10.0.2.2",
                        "lease=: \"0@10.0.2.2\": the lease is over; ip=dhcp asks for a new one");
    assert_refused(GAME "ip=10.0.2.15/24 gwmac=52:55:0a:00:02:02", "settings: gwmac= goes with gw=");
}

TEST(the_matcher_gets_its_part)
{
    assert_true(parse(GAME "early=off simd=scalar"));
    struct matcher_config matcher;
    player_settings_matcher(&matcher);
    assert_int_equal(matcher.n_digits_max, 256);
    assert_int_equal(matcher.modulus_count, 2);
    assert_string_equal(matcher.moduli[1], "823");
    assert_int_equal(matcher.simd, MATCHER_SIMD_SCALAR);
    assert_false(matcher.early);
}

/* Reads the words after an error. They may name the regions of the crash record, which keeps the reason of a failed
 * start. */
TEST(words_after_an_error_are_read)
{
    assert_word_refused("fed=1 simd=scalar xsimd=avx2 blackbox=0x90000,32768",
                        "\"fed\": there is no such key in the program player");
    assert_int_equal(player_settings.simd, MATCHER_SIMD_SCALAR);
    assert_int_equal(machine_settings.blackbox_count, 1);
    assert_false(parse(GAME "blackbox=0x90000,32768,junk"));
    assert_int_equal(machine_settings.blackbox_count, 0);
}

/* A table with one row, as a program's author may get it wrong. */
static struct {
    uint16_t number;
    uint64_t time;
    bool on;
    char text[9];
} values;
static const char *const colours[] = { "red", "blue", NULL };
static struct setting tried;
static const struct settings_table table = { &tried, 1, &values, sizeof values, NULL, NULL };
#define AT(member) .offset = (uint16_t)((uint8_t *)&values.member - (uint8_t *)&values), .bytes = sizeof values.member

static void assert_row_refused(struct setting wrong, const char *message)
{
    tried = wrong;
    service_settings_begin(&settings, "shout", &table, &machine_settings_table);
    settings_add(&settings, "command line", "port=70000 x=1", 14);
    assert_false(settings_finish(&settings));
    assert_string_equal(settings.error, message);
}

TEST(a_mistake_in_a_table_is_reported_by_the_rows_name)
{
    struct setting good = { "port",         SETTING_NUMBER,   AT(number),      .min = 1, .max = UINT16_MAX,
                            .initial = "7", .noun = "a port", .help = "of TCP" };
    tried = good;
    service_settings_begin(&settings, "shout", &table, &machine_settings_table);
    assert_true(settings_finish(&settings));
    assert_int_equal(values.number, 7);

    struct setting wrong = good;
    wrong.initial = "abc";
    assert_row_refused(wrong, "settings, the row's default: port=: \"abc\": expected a port, 1 to 65535");
    wrong = good;
    wrong.max = 70000;
    assert_row_refused(wrong, "settings, the row of port=: .max does not fit the member: widen it, or lower .max");
    wrong.max = 0;
    assert_row_refused(wrong, "settings, the row of port=: .max does not fit the member: widen it, or lower .max");
    wrong = good;
    wrong.min = 9, wrong.max = 8;
    assert_row_refused(wrong, "settings, the row of port=: .min is more than .max");
    wrong = good;
    wrong.initial = NULL;
    assert_row_refused(wrong, "settings, the row of port=: there is no default: set .initial, .unset or .required");
    wrong = good;
    wrong.help = NULL;
    assert_row_refused(wrong, "settings, the row of port=: .help is missing");

    static const char *const known[] = { "key", "ip", "watchdog", "console" };
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        char message[120];
        wrong = good;
        wrong.name = known[i];
        snprintf(message, sizeof message,
                 "settings, the row of %s=: another row has this key: rename the program's row", known[i]);
        assert_row_refused(wrong, message);
    }
}

TEST(a_member_of_another_size_than_its_kind_is_reported)
{
    static const char message[] = "settings, the row of x=: the member is not of the type that the kind has "
                                  "(base/settings.h)";
    assert_row_refused((struct setting){ "x", SETTING_TIME, AT(number), .initial = "7", .help = "x" }, message);
    assert_row_refused((struct setting){ "x", SETTING_SWITCH, AT(time), .initial = "on", .help = "x" }, message);
    assert_row_refused((struct setting){ "x", SETTING_ADDRESS, AT(time), .unset = "none", .noun = "x", .help = "x" },
                       message);
    assert_row_refused((struct setting){ "x", SETTING_ENDPOINT, AT(number), .unset = "none", .help = "x" }, message);
    assert_row_refused(
        (struct setting){ "x", SETTING_CHOICE, AT(number), .choices = colours, .initial = "red", .help = "x" },
        message);
    assert_row_refused(
        (struct setting){ "x", SETTING_TEXT, AT(text), .max = 9, .unset = "none", .noun = "x", .help = "x" }, message);
    assert_row_refused((struct setting){ "x", SETTING_TEXT, AT(text), .max = 8, .unset = "none", .help = "x" },
                       "settings, the row of x=: .noun is missing");
    assert_row_refused((struct setting){ "x", SETTING_CUSTOM, .unset = "none", .noun = "x", .help = "x" },
                       "settings, the row of x=: .set is missing");
    assert_row_refused((struct setting){ "x", SETTING_CHOICE, AT(number), .initial = "red", .help = "x" },
                       "settings, the row of x=: .choices is missing");
}

/* Checks that every row describes its expected value, and has a help and a default. */
TEST(every_row_has_a_help_and_a_default)
{
    begin();
    for (size_t t = 0; t < settings.table_count; t++)
        for (size_t i = 0; i < settings.tables[t]->count; i++) {
            const struct setting *row = &settings.tables[t]->rows[i];
            char text[SETTINGS_VALUE_BYTES_MAX];
            if (row->kind == SETTING_FOREIGN)
                continue;
            assert_true(strlen(settings_describe(row, text)) > 5);
            assert_non_null(row->help);
            assert_true(row->required || row->initial || row->unset);
        }
}
