/* schema_format.c: formats as patterns that the whole string matches. Each text obeys its RFC; not each text that the RFC
 * allows is among them (docs/constraints.md). */
#include <string.h>

#include "sample/schema.h"

/* Days that exist; no year 0. */
#define YEAR      "(\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})"
#define BY_FOUR   "(0[48]|[2468][048]|[13579][26])"
#define LEAP_YEAR "(\\d\\d" BY_FOUR "|" BY_FOUR "00)"
#define DATE                                                                                                                   \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR   \
    "-02-29)"
#define TIME      "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL     "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST      LABEL "(\\." LABEL "){0,3}"
#define ATOM      "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,64}"
#define BYTE      "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4      BYTE "(\\." BYTE "){3}"
#define H16       "[0-9a-fA-F]{1,4}"
#define COLONS(n) "(" H16 ":){" #n "}"
#define UP_TO(n)  "(:" H16 "){1," #n "}"
#define TIME_PART "T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)"
#define DATE_PART "(\\d+D|\\d+M(\\d+D)?|\\d+Y(\\d+M(\\d+D)?)?)"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE}, /* RFC 3339, section 5.6 */
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(\\d+W|" DATE_PART "(" TIME_PART ")?|" TIME_PART ")"}, /* RFC 3339, appendix A */
    {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},       /* RFC 4122 */
    {"email", ATOM "(\\." ATOM ")?@" HOST},                               /* RFC 5321, a part of it */
    {"hostname", HOST},                                                   /* RFC 1123 */
    {"ipv4", IPV4},
    {"ipv6", "(" COLONS(7) H16 "|" COLONS(1) UP_TO(6) "|" COLONS(2) UP_TO(5) "|" COLONS(3) UP_TO(4) "|" COLONS(4)
                 UP_TO(3) "|" COLONS(5) UP_TO(2) "|" COLONS(6) ":" H16 "|:" UP_TO(7) "|(" H16 ":){1,7}:|::)"}, /* RFC 4291 */
};

const char *schema_format_pattern(const char *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, format) == 0)
            return formats[i].pattern;
    return NULL;
}
