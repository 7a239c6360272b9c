// Shared by the kernel and the program that launches it.
#define BLOCK 256
