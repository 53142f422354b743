/* SPDX-License-Identifier: GPL-2.0 */
/* The interface between the files of lines_target. */

int lines_target_other(int n);
