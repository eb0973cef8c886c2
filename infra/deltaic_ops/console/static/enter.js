// Trades the key of the link's fragment for a session: into the form, out of the address, and sent.
const key = decodeURIComponent(location.hash.slice(1));
if (key) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("key").value = key;
  document.getElementById("enter").submit();
}
