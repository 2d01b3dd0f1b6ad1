/* The checksum over data of each length up to a full frame's; the data ends where the buffer ends. */
#include "net/ip/checksum.h"

static uint8_t data[1480];

void main(void)
{
    prove_any(data, sizeof data);
    for (uint32_t bytes = 0; bytes <= sizeof data; bytes++)
        checksum_sum(prove_number(0, UINT32_MAX), data + sizeof data - bytes, bytes);
}
