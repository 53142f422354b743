# SPDX-License-Identifier: GPL-2.0

# Completes the names of functions, trace events, structures and symbols, besides the options.
_rkprobe_names() {
	local word previous command='' kind='' last names events index before=''
	# The options without a value, so the next word can be a name.
	local flags=' @FLAGS@ '
	_rkprobe "$@"
	word=${COMP_WORDS[COMP_CWORD]}
	index=$COMP_CWORD
	# Bash takes the colon of SYSTEM:NAME or MODULE:FUNCTION for a word of its own.
	if [ "$word" = : ]; then
		word=''
	elif [ "${COMP_WORDS[COMP_CWORD - 1]}" = : ]; then
		index=$((COMP_CWORD - 1))
	fi
	if [ "${COMP_WORDS[index]}" = : ]; then
		index=$((index - 1))
		before=${COMP_WORDS[index]##*[,!]}:
	fi
	previous=${COMP_WORDS[index - 1]}
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
	follow,from,* | follow,until,*) kind=functions ;;
	watch,*) kind=symbols ;;
	hist,hist,* | lat,* | slow,* | fails,* | args,* | exits,* | cover,* | path,* | count,* | list,* | tree,* | why,*) kind=functions ;;
	esac
	[ "$kind" ] || return
	last=${word##*[,!]}
	mapfile -t names < <(rkprobe names "$kind" "$last" 2> /dev/null)
	case $command,$kind in
	args,functions | count,functions | hist,functions | list,functions)
		mapfile -t events < <(rkprobe names events "$before$last" 2> /dev/null)
		names+=("${events[@]#"$before"}")
		# The name follows the system without a blank.
		[[ ${#events[@]} -gt 0 && ${names[*]} = "${events[*]}" && ${events[0]} = *: ]] && compopt -o nospace 2> /dev/null
		;;
	esac
	[ ${#names[@]} = 0 ] || COMPREPLY=("${names[@]/#/${word%"$last"}}")
}
complete -F _rkprobe_names -o bashdefault -o default rkprobe
