# SPDX-License-Identifier: GPL-2.0
#
# awk -f table.awk [-v lowest_most=NUMBER] [-v tsv=FILE -v svg=FILE -v about=TEXT] ROWS RESULT...: what
# scripts/bench prints. A RESULT has lines "ROW WHO FIGURE", of each as many as there were rounds. Each
# hit may cost `lowest_most` of the kernel's, whatever ROWS says, and commands then may cost anything.

# The figure in the middle of those of ROW and WHO, and in `spread` how far they are apart.
function middle(row, who,	i, j, n, sorted, figure) {
	n = rounds[row, who]
	for (i = 1; i <= n; i++) {
		figure = figures[row, who, i]
		for (j = i - 1; j > 0 && sorted[j] > figure; j--)
			sorted[j + 1] = sorted[j]
		sorted[j + 1] = figure
	}
	spread = n ? sorted[n] - sorted[1] : 0
	return sorted[int((n + 1) / 2)]
}

# The lowest of them, for what the computer disturbs.
function lowest(row, who,	i, figure) {
	figure = figures[row, who, 1]
	for (i = 2; i <= rounds[row, who]; i++) {
		if (figures[row, who, i] < figure)
			figure = figures[row, who, i]
	}
	return figure
}

function percent(part, whole) { return whole ? 100 * part / whole : 0 }

# A row that is the sum of two others.
function add(row, one, other,	who) {
	for (who in both) {
		if (rounds[one, who]) {
			rounds[row, who] = 1
			figures[row, who, 1] = middle(one, who) + middle(other, who)
		}
	}
}

# What a row of commands costs, of both.
function command(row, unit, divisor, most, text,	c, o, ratio) {
	if (!rounds[row, "ours"])
		return
	o = middle(row, "ours") / divisor
	# The kernel's own is not loaded.
	if (rounds[row, "C"]) {
		c = middle(row, "C") / divisor
		if (lowest_most)
			most = ""
		if (most != "" && o / c > most + 0.0005)
			missed = missed " " row
		ratio = sprintf("%.3f", o / c)
		c = sprintf("%.3f", c)
	}
	printf "%-14s %12s %12.3f %7s %5s  %s\n", row, c, o, ratio, most, unit ", " text
	if (tsv)
		printf "%s\t\t%s\t%.3f\t\t\t%s\t\t%s\n", row, c, o, ratio, unit >tsv
}

function bar(x, y, width, color) {
	printf "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"7\" fill=\"%s\"/>\n", x, y, width, color >svg
}

function text(x, y, anchor, what) {
	gsub(/&/, "\\&amp;", what)
	gsub(/</, "\\&lt;", what)
	printf "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, what >svg
}

# All bars are parts of the kernel's.
function draw(	i, y, x, width, end, row) {
	x = 75
	width = 400
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"%d\" " \
		"font-family=\"sans-serif\" font-size=\"12\">\n", 22 * drawn + 60 >svg
	print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>" >svg
	text(x, 18, "start", "instructions of a hit: the kernel\047s (grey), rkprobe\047s (green), the least possible (line)")
	for (i = 1; i <= drawn; i++) {
		row = rows[i]
		y = 10 + 22 * i
		text(x - 8, y + 12, "end", row)
		bar(x, y, width, "#bbbbbb")
		bar(x, y + 8, width * ours[row] / theirs[row], "#2e8b57")
		if (row in least)
			printf "<path d=\"M%.1f %dv17\" stroke=\"black\" stroke-width=\"2\"/>\n",
				x + width * least[row] / theirs[row], y - 1 >svg
		end = ours[row] > theirs[row] ? ours[row] / theirs[row] : 1
		text(x + width * end + 10, y + 12, "start",
			sprintf("%.2f   %d of %d", ours[row] / theirs[row], ours[row], theirs[row]))
	}
	text(x, 22 * drawn + 45, "start", about)
	print "</svg>" >svg
}

FILENAME == ARGV[1] {
	if ($0 !~ /^(#|$)/) {
		rows[++count] = $1
		most[$1] = lowest_most && ($2 ~ /^=/ || $2 !~ /^\+/ && $2 < lowest_most) ? lowest_most : $2
		$1 = $2 = $3 = ""
		sub(/^ */, "")
		sub(/ \| .*/, "")
		event[rows[count]] = $0
	}
	next
}

{ figures[$1, $2, ++rounds[$1, $2]] = $3 }

END {
	printf "%-8s %8s %8s %8s %8s %8s %7s %7s %8s %6s %6s  %s\n", "row", "bare", "C", "ours", "limit", "bpf",
		"ours/C", "limit/C", "ours/bpf", "most", "spread", "event"
	if (tsv)
		print "row\tbare\tC\tours\tlimit\tbpf\tratio\tspread\tunit" >tsv
	for (i = 1; i <= count; i++) {
		row = rows[i]
		if (!rounds[row, "ours"])
			continue
		bare = middle(row, "bare")
		# The kernel has nothing for some rows.
		has_c = rounds[row, "C"]
		c = has_c ? middle(row, "C") - bare : 0
		apart = percent(spread, c)
		o = middle(row, "ours") - bare
		if (percent(spread, o) > apart)
			apart = percent(spread, o)
		l = rounds[row, "limit"] ? middle(row, "limit") - bare : -1
		b = -1
		if (rounds[row, "bpf"]) {
			b = middle(row, "bpf") - bare
			if (percent(spread, b) > apart)
				apart = percent(spread, b)
			if (o < b)
				ahead = ahead " " row
			else
				behind = behind " " row
		}
		# What costs nothing has no ratio.
		free = c < 1
		if (free && has_c)
			apart = 0
		note = ""
		is_difference = most[row] ~ /^\+/
		# The most instructions.
		if (most[row] ~ /^=/)
			most_of = substr(most[row], 2) + 0
		else if (is_difference)
			most_of = c + substr(most[row], 2)
		else
			most_of = free ? 1 : c * most[row]
		if (o > most_of && (l < 0 || l <= most_of || o > 1.05 * l)) {
			note = "MISSED  "
			missed = missed " " row
		}
		printf "%-8s %8.1f %8s %8.1f %8s %8s %7s %7s %8s %6s %5.1f%%  %s%s\n", row, bare,
			has_c ? sprintf("%.1f", c) : "", o,
			l < 0 ? "" : sprintf("%.1f", l), b < 0 ? "" : sprintf("%.1f", b),
			free ? "" : sprintf("%.3f", o / c), l < 0 || free ? "" : sprintf("%.3f", l / c),
			b < 0 ? "" : sprintf("%.3f", o / b), free ? "" : sprintf("%.2f", most_of / c), apart, note, event[row]
		if (tsv)
			printf "%s\t%.1f\t%s\t%.1f\t%s\t%s\t%s\t%.2f%%\tinstructions\n", row, bare,
				has_c ? sprintf("%.1f", c) : "", o,
				l < 0 ? "" : sprintf("%.1f", l), b < 0 ? "" : sprintf("%.1f", b), free ? "" : sprintf("%.3f", o / c), apart >tsv
		if (!free && !is_difference) {
			drawn++
			rows[drawn] = row
			ours[row] = o
			theirs[row] = c
			if (l >= 0)
				least[row] = l
		}
	}
	if (ahead behind)
		printf "\nahead of bpftrace:%s\nbehind:%s\n", ahead, behind
	if (svg)
		draw()

	both["C"] = both["ours"] = 1
	add("attach", "define", "enable")
	add("glob", "glob_define", "glob_enable")
	printf "\n%-14s %12s %12s %7s %5s\n", "commands", "C", "ours", "ours/C", "most"
	command("load", "ms", 1e6, "", "the module is loaded")
	command("first", "ms", 1e6, "", "the first probe, of a register")
	command("first_btf", "ms", 1e6, "", "the first probe that takes BTF, of a parameter")
	command("next_btf", "ms", 1e6, "", "the next one")
	command("define", "ms", 1e6, "", "1,000 probes are defined")
	command("enable", "ms", 1e6, "", "and enabled")
	command("attach", "ms", 1e6, 1, "both")
	command("clear", "ms", 1e6, 0.1, "1,000 probes are cleared, 4 CPUs, not counted")
	command("glob", "ms", 1e6, 1, "acpi_* is defined and enabled")
	command("ten_to_10", "ms", 1e6, "", "10 probes are defined")
	command("ten_to_100", "ms", 1e6, "", "the 91st to 100th")
	command("ten_to_1000", "ms", 1e6, "", "the 991st to 1,000th")
	command("ten_to_10000", "ms", 1e6, "", "the 9,991st to 10,000th")
	command("memory_of_1000", "KiB", 1, "", "what 1,000 take")
	command("memory_of_10000", "KiB", 1, 1, "what 10,000 take")
	command("tree_first", "ms", 1e6, "", "the first call tree is defined")
	command("tree_define", "ms", 1e6, "", "one of mount(2), to depth 4")
	command("tree_enable", "ms", 1e6, "", "and enabled")
	command("tree_all_define", "ms", 1e6, "", "the same with all functions is defined")
	command("tree_all_enable", "ms", 1e6, "", "and enabled")
	for (i = split("path blocks", kinds, " "); i > 0; i--) {
		command(kinds[i] "_define", "ms", 1e6, "", "%" kinds[i] " of link_path_walk() is defined")
		command(kinds[i] "_enable", "ms", 1e6, "", "and enabled")
		command(kinds[i] "_disable", "ms", 1e6, "", "and disabled")
	}
	for (i = split("inode file dentry", types, " "); i > 0; i--) {
		command("define_" types[i], "ms", 1e6, "", "an object probe for all functions of a type is defined")
		command("enable_" types[i], "ms", 1e6, "", "and enabled")
		command("job_" types[i], "ms", 1e6, "", "a compile job, beside the same job without this probe")
	}
	command("job_all", "ms", 1e6, "", "the same with all three probes")
	if (rounds["cpus", "ours"]) {
		bare = lowest("cpus", "bare") / 1000
		c = lowest("cpus", "C") / 1000
		o = lowest("cpus", "ours") / 1000
		printf "\ncpus: on 4 CPUs at once, not counted, a call takes %.2f us bare, %.2f with C, %.2f with ours: " \
			"ours lets through %.2f times as many\n", bare, c, o, c / o
		if (tsv)
			printf "cpus\t%.2f\t%.2f\t%.2f\t\t\t%.3f\t\tus\n", bare, c, o, o / c >tsv
	}
	if (missed) {
		print "missed:" missed
		exit 1
	}
}
