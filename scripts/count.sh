# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Counts tests, for scripts that end with the line "N passed, N failed".

passed=0
failed=0
complaints=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT

pass() { passed=$((passed + $1)); }
fail() {
	failed=$((failed + $1))
	complaints+=("$2")
}

# check NAME CMD...: count one test, which passes if CMD succeeds.
check() {
	local name=$1
	shift
	say "$name"
	if "$@"; then
		pass 1
	else
		fail 1 "$name"
		return 1
	fi
}

# run CMD...: run the command, print its output, and keep a copy of it.
run() { "$@" 2>&1 | tee "$output"; }

# each TITLE CMD...: count tests that print one line each, which begins with "ok" or "not ok".
each() {
	local name title=$1
	shift
	say "$title"
	run "$@" || true
	pass "$(grep -c '^ok ' "$output")"
	grep -q '^ok ' "$output" || fail 1 "$title: no test was run"
	while read -r _ _ name; do
		fail 1 "$title: $name"
	done < <(grep '^not ok ' "$output")
}

# count_tests TITLE STATUS LOG: count the tests of ftracetest. A planned test without a result has failed, and so has
# a test that could not run. ftracetest's own sum counts if there is one, because a result does not begin a line if a
# test's output ends without a line break.
count_tests() {
	local sum names title=$1 status=$2
	sum=$(awk '/^1\.\.[0-9]+/ { planned = substr($1, 4) }
		/^ok / && !/# SKIP/ { passed++ }
		/^# Totals: pass:/ { split($3, total, ":"); passed = total[2] }
		END { print passed + 0, planned - passed }' "$3")
	pass "${sum% *}"
	names=$(sed -nE 's/^not ok [0-9]+ //p; s/^ok [0-9]+ (.*# SKIP)/\1/p' "$3" | paste -sd ';')
	[ "${sum#* }" = 0 ] || fail "${sum#* }" "$title: ${sum#* } tests: $names"
	if [ "$status" = 125 ]; then
		fail 1 "$title: the kernel complained or died"
	elif [ "$sum" = "0 0" ]; then
		fail 1 "$title: no test was run"
	elif [ "$status" != 0 ] && [ "${sum#* }" = 0 ]; then
		fail 1 "$title: ftracetest"
	fi
}

# summed TITLE STATUS LOG: count the tests of a script whose last line says how many passed and failed.
summed() {
	local sum title=$1 status=$2
	sum=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$3")
	[ ! "$sum" ] || pass "${sum% *}"
	if [ "$sum" ] && [ "${sum#* }" != 0 ]; then
		fail "${sum#* }" "$title: ${sum#* } tests"
	elif [ "$status" != 0 ] || [ ! "$sum" ]; then
		fail 1 "$title: did not run to its end"
	fi
}

# finish: print the sum, and exit.
finish() {
	local complaint
	[ $((passed + failed)) -gt 0 ] || fail 1 "no test was run"
	for complaint in ${complaints[0]+"${complaints[@]}"}; do
		say "FAILED: $complaint"
	done
	printf '%d passed, %d failed\n' "$passed" "$failed"
	[ "$failed" = 0 ]
}
