// SPDX-License-Identifier: GPL-2.0
/*
 * hits CALLS [-p ID] read FILE | open FILE | close FILE | direct FILE | name | switch | connect: makes a
 * system call so many times, and prints what one costs, in ns. Where the machine counts instructions
 * these are instructions.
 *
 *	read FILE	a byte of it
 *	open FILE	which is not there
 *	close FILE	after an open
 *	direct FILE	a block of a disk, without the page cache
 *	name		its own
 *	switch		to another process and back, by two pipes
 *	connect		to a TCP port of this machine that nobody listens on
 *	-p ID		record this event with perf meanwhile
 *
 * The calls are made a few at a time, so that most groups of them see no timer interrupt; the group
 * in the middle is what counts.
 *
 * hits write FILE: writes each line of the standard input to it.
 * hits clear FILE: opens it to be written anew.
 * hits load FILE: loads the module. All three print how long it took, in ns.
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GROUP 250
#define BLOCK 4096

/* More than a byte: an event takes 64 from there, and a disk a block. */
static char buffer[BLOCK] __attribute__((aligned(BLOCK)));
static int fd = -1;
/* From and to the other process. */
static int in, out;
static const char *path;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void call_read(void)
{
	if (read(fd, buffer, 1) != 1)
		fail(path);
}

static void call_open(void)
{
	if (syscall(SYS_openat, AT_FDCWD, path, O_RDONLY) >= 0)
		fail(path);
}

static void call_close(void)
{
	if (close(open(path, O_RDONLY)))
		fail(path);
}

static void call_direct(void)
{
	if (pread(fd, buffer, BLOCK, 0) != BLOCK)
		fail(path);
}

static void call_name(void)
{
	if (prctl(PR_SET_NAME, "hits"))
		fail("name");
}

static void call_switch(void)
{
	if (write(out, buffer, 1) != 1 || read(in, buffer, 1) != 1)
		fail("switch");
}

static void call_connect(void)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(1),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int socket_fd = socket(AF_INET, SOCK_STREAM, 0);

	if (!connect(socket_fd, (struct sockaddr *)&to, sizeof(to)) || close(socket_fd))
		fail("connect");
}

/* Sends each byte back. */
static void start_other(void)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		fail("pipe");
	if (!fork()) {
		close(there[1]);
		while (read(there[0], buffer, 1) == 1 && write(back[1], buffer, 1) == 1)
			;
		exit(0);
	}
	in = back[0];
	out = there[1];
}

/* The workload's call, which is ready to be made, or NULL. */
static void (*prepare(const char *what))(void)
{
	if (!what)
		return NULL;
	if (path && !strcmp(what, "open"))
		return call_open;
	if (path && !strcmp(what, "close"))
		return call_close;
	if (!strcmp(what, "name"))
		return call_name;
	if (!strcmp(what, "connect"))
		return call_connect;
	if (!strcmp(what, "switch")) {
		start_other();
		return call_switch;
	}
	if (path && (!strcmp(what, "read") || !strcmp(what, "direct"))) {
		fd = open(path, O_RDONLY | (*what == 'd' ? O_DIRECT : 0));
		if (fd < 0)
			fail(path);
		return *what == 'd' ? call_direct : call_read;
	}
	return NULL;
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

/* All CPUs of one, as perf record -a does it; a buffer that is only readable is written over. */
static void record(int id)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = id,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW,
	};
	int event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	if (event < 0)
		fail("perf_event_open");
	if (mmap(NULL, 129 * getpagesize(), PROT_READ, MAP_SHARED, event, 0) == MAP_FAILED)
		fail("mmap");
}

/* All that is done to FILE, by the command line. */
static void do_to_file(const char *what, const char *file)
{
	char line[1024];
	int fd;

	if (!strcmp(what, "write")) {
		fd = open(file, O_WRONLY | O_APPEND);
		while (fd >= 0 && fgets(line, sizeof(line), stdin)) {
			if (write(fd, line, strlen(line)) < 0)
				fail(line);
		}
	} else if (!strcmp(what, "clear")) {
		fd = open(file, O_WRONLY | O_TRUNC);
	} else {
		fd = open(file, O_RDONLY);
		if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0))
			fail(file);
	}
	if (fd < 0 || close(fd))
		fail(file);
}

int main(int argc, char **argv)
{
	void (*call)(void);
	long long *groups;
	int i, j, count;

	if (argc == 3 && (!strcmp(argv[1], "write") || !strcmp(argv[1], "clear") ||
			  !strcmp(argv[1], "load"))) {
		long long start = now();

		do_to_file(argv[1], argv[2]);
		printf("%lld\n", now() - start);
		return 0;
	}
	count = argc > 1 ? atoi(argv[1]) / GROUP : 0;
	argv += 2;
	if (argc > 4 && !strcmp(argv[0], "-p")) {
		record(atoi(argv[1]));
		argv += 2;
	}
	path = argc > 2 && argv[0] ? argv[1] : NULL;
	call = prepare(argc > 2 ? argv[0] : NULL);
	groups = calloc(count + 1, sizeof(*groups));
	if (!call || count < 1 || !groups) {
		fputs("usage: hits CALLS [-p ID] read|open|close|direct FILE | name|switch|connect\n", stderr);
		return 1;
	}
	/* The first is to warm up. */
	for (i = 0; i <= count; i++) {
		long long start = now();

		for (j = 0; j < GROUP; j++)
			call();
		groups[i] = now() - start;
	}
	qsort(groups + 1, count, sizeof(*groups), compare);
	printf("%.2f\n", (double)groups[1 + count / 2] / GROUP);
	return 0;
}
