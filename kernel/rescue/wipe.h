/* Wipes keys and passwords from the kernel's memory: the next system on this machine finds none there. */
#pragma once

/* Wipes each copy of the noted secrets (base/secrets.h) from the image's variables and stacks, and from the memory that
 * was handed out. After two seconds the rest stays. The crash record, which holds no secret, stays. */
void wipe_secrets(void);
