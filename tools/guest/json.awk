#!/bin/awk -f
# Prints a JSON document as lines "path=value", such as files.0.path=/etc/motd; with -v want=PATH only that value, with
# its line breaks.
{ text = text $0 "\n" }
END { value("") }

function take() {
    match(text, /^[ \t\r\n]*/)
    text = substr(text, RLENGTH + 1)
    if (substr(text, 1, 1) == "\"") match(text, /^"([^"\\]|\\.)*"/)
    else if (index("{}[],:", substr(text, 1, 1))) RLENGTH = 1
    else match(text, /^[^][{},: \t\r\n]+/)
    if (RLENGTH < 1) exit 1
    token = substr(text, 1, RLENGTH)
    text = substr(text, RLENGTH + 1)
}

function value(path,   key, number, first) {
    if (path == "") take()
    first = token
    if (first != "{" && first != "[") {
        if (want == "") print substr(path, 2) "=" plain(token, 0)
        else if (want == substr(path, 2)) printf "%s", plain(token, 1)
        return
    }
    number = 0
    take()
    while (token != "}" && token != "]") {
        if (first == "{") { key = plain(token, 0); take(); take() }
        else key = number++
        value(path "." key)
        take()
        if (token == ",") take()
    }
}

# The text of a string, with line breaks as they are, or written as \n.
function plain(word, whole,   found, at, mark) {
    if (substr(word, 1, 1) != "\"") return word
    word = substr(word, 2, length(word) - 2)
    while ((at = index(word, "\\")) > 0) {
        mark = substr(word, at + 1, 1)
        found = found substr(word, 1, at - 1)
        word = substr(word, at + 2)
        if (mark == "n") found = found (whole ? "\n" : "\\n")
        else if (mark == "t") found = found "\t"
        else if (mark == "r") found = found "\r"
        else if (mark == "u") { found = found sprintf("%c", hexadecimal(substr(word, 1, 4))); word = substr(word, 5) }
        else found = found mark
    }
    return found word
}

function hexadecimal(digits,   number, at) {
    for (at = 1; at <= length(digits); at++)
        number = 16 * number + index("0123456789abcdef", tolower(substr(digits, at, 1))) - 1
    return number
}
