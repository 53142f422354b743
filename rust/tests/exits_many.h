/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with several returns, for exits_x86.S and exits_arm64.S. Both define FUNC_START(),
 * RETURN_IF and RETURN_ELSE.
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
