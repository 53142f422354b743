/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with several returns or blocks, for exits_x86.S and exits_arm64.S. Both define
 * FUNC_START(), RETURN_IF, RETURN_ELSE and ADD_IF.
 */

FUNC_START(exits_two)
	RETURN_IF 0
	RETURN_ELSE 1
SYM_FUNC_END(exits_two)

FUNC_START(exits_eight)
	.irp number, 0, 1, 2, 3, 4, 5, 6
	RETURN_IF \number
	.endr
	RETURN_ELSE 7
SYM_FUNC_END(exits_eight)

/* More blocks than rkprobe probes. Returns 1. */
FUNC_START(exits_many)
	.rept	512
	ADD_IF
	.endr
	RETURN_IF 0
	RETURN_ELSE 1
SYM_FUNC_END(exits_many)
