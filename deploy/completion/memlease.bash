# shellcheck shell=bash
# Completion of bash for memleased and memleasectl. Installed under both names in
# share/bash-completion/completions; elsewhere, source it.
#
# There is no list of options in here that could lag behind: it reads what --help says, and the programs
# make that of the table that they read their command line by. Names of arrays and numbers of sessions
# come from the daemon that the command would ask.

# Takes a help text from standard input into the caller's options, value_of, commands and positionals.
_memlease_read_help() {
  local line name names section=
  while IFS= read -r line; do
    if [[ $line =~ ^([A-Za-z]+):$ ]]; then
      section=${BASH_REMATCH[1],,}
    elif [[ $line =~ ^'  '(-[^ ]+)(' '([^ ]+))? ]]; then
      IFS=, read -ra names <<<"${BASH_REMATCH[1]}"
      for name in "${names[@]}"; do
        options+=("$name")
        value_of[$name]=${BASH_REMATCH[3]-}
      done
    elif [[ $section == subcommands && $line =~ ^'  '([a-z]+) ]]; then
      commands+=("${BASH_REMATCH[1]}")
    elif [[ $section == positionals && $line =~ ^'  '([A-Z]+) ]]; then
      positionals+=("${BASH_REMATCH[1]}")
    fi
  done
}

# The first column of what a command of memleasectl lists, which has a line of titles.
_memlease_list() {  # PROGRAM DIRECTORY COMMAND
  local first rest
  "$1" --timeout 1 ${2:+"--directory=$2"} "$3" 2>/dev/null </dev/null | {
    read -r rest
    while read -r first rest; do printf '%s\n' "$first"; done
  }
}

_memlease() {  # as bash calls it: PROGRAM WORD WORD-BEFORE
  local program=$1 current=$2 option=$3 word before='' command='' directory='' place
  local -a options=() commands=() positionals=()
  local -A value_of=()
  COMPREPLY=()
  _memlease_read_help < <("$program" --help 2>/dev/null </dev/null)

  # bash makes three words of --option=value.
  if [[ $current == '=' ]]; then
    current=
  elif [[ $option == '=' ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word != '=' ]] || continue
    if [[ $before == -* && -n ${value_of[$before]-} ]]; then
      [[ ${value_of[$before]} != DIR ]] || directory=$word
    elif [[ -z $command && $word != -* && " ${commands[*]} " == *" $word "* ]]; then
      command=$word
      _memlease_read_help < <("$program" "$command" --help 2>/dev/null </dev/null)
    fi
    before=$word
  done

  place=${value_of[$option]-}
  if [[ $option == -* && -n $place ]]; then
    case $place in
      DIR | FILE | PATH)
        compopt -o filenames 2>/dev/null
        if [[ $place == DIR ]]; then place=-d; else place=-f; fi
        mapfile -t COMPREPLY < <(compgen "$place" -- "$current")
        return
        ;;
      *'{'*'}'*)  # KEY:{one,other}
        place=${place#*\{}
        place=${place%\}*}
        place=${place//,/ }
        ;;
      *'|'*) place=${place//|/ } ;;
      *) return ;;
    esac
  elif [[ $current == -* ]]; then
    place=${options[*]}
  elif [[ -z $command ]]; then
    place=${commands[*]}
  else
    case ${positionals[*]} in
      *NAME* | *PATTERN*) place=$(_memlease_list "$program" "$directory" ls) ;;
      *SESSION*) place=$(_memlease_list "$program" "$directory" sessions) ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$place" -- "$current")
}

complete -F _memlease memleased memleasectl
