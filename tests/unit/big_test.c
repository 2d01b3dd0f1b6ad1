/* base/big.h, against numbers that Python computed (seed 1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/big.h"

static const struct {
    const char *modulus, *digits, *remainder;
    uint64_t fraction; /* remainder / modulus, rounded to 64 bits */
} cases[] = {
    { "5",
      "1417776317066907439150008063608377835337406812415868344978690736625851781286570704999622830388368595"
      "7489068288360759838675650889957903289218401107",
      "2", UINT64_C(7378697629483820646) },
    { "828991222747",
      "4341925412248244757710465634148396030620278683873806956042304114426942080939729806351396937164870596"
      "4023592563416858783101222834598455514397298150616225199619839145498174104090161033962172321668",
      "466823232057", UINT64_C(10387768233398423918) },
    { "15095895066692211225", "8475135000495765611597143987542834335141719536405259435189991330361481100457",
      "12542802268065866982", UINT64_C(15326939037663371321) },
    { "34359808914851465200", "1851822225418942328059832468203417684878", "17591511909779938478",
      UINT64_C(9444351651474453243) },
    { "70965492666217670363279268453",
      "247069005929224469629137028587335773658943018528344485279119896224639076568280814141291",
      "23334015761465194135278580553", UINT64_C(6065435478454134386) },
    { "252145929962192778215022952586461273722",
      "66257297316986144368038790093432428344947285761396341019084218594685850177548659716638049837986427",
      "8102992795511378451878228050079380555", UINT64_C(592806849399960940) },
    { "806771974675963668657330558374495393912608573004882940430197",
      "6966599173406264219054684274727804819615170282164943833541185788024845936862749534930965634312979294"
      "78222754631341136571200903078975419213637762334789637457913100075694362200",
      "78762219579311049451190657526252736724413670513418671502178", UINT64_C(1800888668499447905) },
    { "1013980809267864361138882912915303096305383594899278272951302863705691933730154279050472973484138453"
      "1",
      "4008082041613072437654433099256988058683861491421203600187851502807267084145140604524614163883558697"
      "1278898804235685165",
      "2060025684066868491611284578088422872660516610331682512487743560338524858184008665195419171671140494",
      UINT64_C(3747681044051324797) },
    { "5532656154284719757715106866955699015205822943317986999360999721512380995598341833877625839185334409"
      "891243049992661186483608805332123862742380906077065801",
      "8808125559174775619020879439555647958820243921269018413419811328609574339736758371463086871698996057"
      "03408148589848688699474287928240690566401106474575671752620245294648464657376611232301427162",
      "4999610254524408762797088262788800111891787846828030623430741643568237121540677930379428450693954992"
      "634536000187620438135679043151961815811463784166459926",
      UINT64_C(16669485372244137563) },
    { "8736391235706187013803786128647067422227141772744620920953044310132625252336198170490465463593064195"
      "400682336060303617224557541969107789704374241147275353",
      "861442703161748761971269328", "861442703161748761971269328", UINT64_C(0) },
};

static struct big big_of(const char *decimal)
{
    struct big value = { { 0 } };
    for (; *decimal != 0; decimal++)
        big_mul_add(&value, 10, (uint64_t)(*decimal - '0'));
    return value;
}

static void big_appended_digits_leave_the_remainder(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct big modulus = big_of(cases[i].modulus), expected = big_of(cases[i].remainder);
        size_t count = strlen(cases[i].digits);
        for (size_t split = 0; split <= count; split += 7) {
            struct big value = { { 0 } };
            big_append_mod(&value, (const uint8_t *)cases[i].digits, split, &modulus);
            big_append_mod(&value, (const uint8_t *)cases[i].digits + split, count - split, &modulus);
            assert_int_equal(big_compare(&value, &expected), 0);
        }
    }
}

static void big_fraction_is_rounded_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct big modulus = big_of(cases[i].modulus), value = big_of(cases[i].remainder);
        /* the table has the nearest */
        assert_in_range(cases[i].fraction - big_fraction(&value, &modulus), 0, 1);
    }
}

static void big_division_undoes_multiplication(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct big value = big_of(cases[i].modulus), before = value;
        big_mul_add(&value, 1000003, 77);
        assert_int_equal(big_div(&value, 1000003), 77);
        assert_int_equal(big_compare(&value, &before), 0);
    }
}

static void big_asserts_on_overflow_and_on_less_than_nothing(void **state)
{
    (void)state;
    struct big one = { { 1 } }, two = { { 2 } }, most;
    memset(&most, 0xff, sizeof most);
    expect_assert_failure(big_add(&most, &one));
    expect_assert_failure(big_sub(&one, &two));
    memset(&most, 0xff, sizeof most);
    expect_assert_failure(big_mul_add(&most, 2, 0));
    expect_assert_failure(big_div(&two, 0));
    const struct big half = { { [7] = UINT64_C(1) << 63 } }, too_large = { { [8] = 1 } }; /* 2^511, 2^512 */
    expect_assert_failure(big_fraction(&half, &too_large));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_appended_digits_leave_the_remainder),
        cmocka_unit_test(big_fraction_is_rounded_down),
        cmocka_unit_test(big_division_undoes_multiplication),
        cmocka_unit_test(big_asserts_on_overflow_and_on_less_than_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
