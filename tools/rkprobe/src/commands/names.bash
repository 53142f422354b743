# SPDX-License-Identifier: GPL-2.0

# Completes the names of functions, structures and symbols, besides the options.
_rkprobe_names() {
	local word previous command='' kind='' last names index
	# The options without a value, so the next word can be a name.
	local flags=' @FLAGS@ '
	_rkprobe "$@"
	word=${COMP_WORDS[COMP_CWORD]}
	previous=${COMP_WORDS[COMP_CWORD - 1]}
	for ((index = 1; index < COMP_CWORD; index++)); do
		case ${COMP_WORDS[index]} in
		--) return ;;
		-*) ;;
		*) command=${command:-${COMP_WORDS[index]}} ;;
		esac
	done
	case $command,$previous,$word in
	,*,* | *,*,-*) ;;
	*,--only,* | leaks,--get,* | leaks,--put,* | leaks,--from,* | leaks,--until,*) kind=functions ;;
	*,-*,*) [[ $flags = *" $previous "* ]] || return ;;
	esac
	case $command,$previous,$word in
	,*,* | *,*,-*) ;;
	follow,follow,* | leaks,leaks,*) kind=structures ;;
	follow,from,* | follow,until,* | follow,:,*) kind=functions ;;
	watch,*) kind=symbols ;;
	hist,hist,* | lat,* | slow,* | fails,* | args,* | exits,* | cover,* | path,* | count,* | list,* | tree,* | why,*) kind=functions ;;
	esac
	[ "$kind" ] || return
	last=${word##*[,!]}
	mapfile -t names < <(rkprobe names "$kind" "$last" 2> /dev/null)
	[ ${#names[@]} = 0 ] || COMPREPLY=("${names[@]/#/${word%"$last"}}")
}
complete -F _rkprobe_names -o bashdefault -o default rkprobe
