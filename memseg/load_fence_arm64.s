#include "textflag.h"

// func loadFence()
TEXT ·loadFence(SB), NOSPLIT, $0-0
	DMB $0x9 // ISHLD
	RET
