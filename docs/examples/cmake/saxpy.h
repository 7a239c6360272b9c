// What the kernel and the program that launches it agree on.
#define BLOCK 256
