"""Object keys that break URL signers: a list and a Hypothesis strategy."""

from hypothesis import strategies as st

NASTY_KEYS = (
    "plain.parquet",
    "date=2021-01-01/part-0.parquet",
    "a b/c  d.parquet",
    " leading and trailing ",
    "100%/x%20y%2Fz.parquet",
    "a+b=c&d?e#f;g,h:i@j$k!l*m'n(o)p[q].parquet",
    'quote"back\\slash`tick^caret|pipe<lt>gt{}',
    "\u00e9\u00fc\u00df/\u65e5\u672c\u8a9e/\u0434.parquet",
    "emoji-\U0001f600/\U0001f468\u200d\U0001f469.parquet",
    "tilde~dot.dash-under_score",
    "a//b///c.parquet",
    "a/./b/../c.parquet",
    "../up",
    ".hidden",
    "/leading",
    "trailing/",
    "//",
    "tab\there",
    "nfc-\u00e9-nfd-e\u0301",
    "x" * 900,
)

keys = st.lists(
    st.text(
        st.one_of(
            st.sampled_from("/%+= ~._-&?#:@!$'()*,;[]\"\\"),
            st.characters(min_codepoint=0x20, max_codepoint=0x10FFFF, exclude_categories=["Cs"]),
        ),
        min_size=1,
        max_size=40,
    ),
    min_size=1,
    max_size=50,
)
