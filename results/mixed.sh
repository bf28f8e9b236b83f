# List of the set that mixes motion and looks: ten spoken digits of grid-words, ten classes of ucf101-21, whose
# folders stand here. It goes to standard output: sh results/mixed.sh > mixed.csv
echo path,label,split,group
LC_ALL=C awk -F, '
    FNR > 1 && ($10 == "digit" && $11 == 1 || FILENAME ~ /ucf/ && $2 <= "JumpRope") {
        print substr(FILENAME, 1, length(FILENAME) - length("splits.csv")) $1 "," $2 "," $3 "," $5
    }' grid-words/splits.csv ucf101-21/splits.csv
