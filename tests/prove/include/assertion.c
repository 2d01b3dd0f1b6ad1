/* Raises an alarm for a failed assertion of the product. tests/prove/prove.py reads the alarm by this name. */
_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    (void)file, (void)line;
    Frama_C_show_each_assertion(condition);
    for (;;)
        ;
}
