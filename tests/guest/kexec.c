/* The first program of a Linux guest: starts /image with the settings /module, by kexec_file_load. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    static const char words[] = "n=3";
    if (syscall(SYS_kexec_file_load, open("/image", O_RDONLY), open("/module", O_RDONLY), sizeof words, words, 0L) != 0)
        perror("kexec_file_load");
    reboot(RB_KEXEC);
    perror("reboot");
    return 1;
}
